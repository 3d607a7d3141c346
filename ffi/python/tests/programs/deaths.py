"""What survivors are told of a death, and what a request that was cut short leaves behind."""

import os
import signal
import sys
import time
import weakref

import numpy
from mpi4py import MPI

import fampi


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def reports(world):
    """All survivors have one report, with the cause; their own requests are named."""
    took = numpy.zeros((2, 1))
    try:
        with world.block() as block:
            if world.rank == 2:
                die()
            block.Irecv(took[0], source=2)
            block.Isend(numpy.zeros(1), dest=world.rank)
            block.Irecv(took[1], source=world.rank)
    except fampi.BlockFailed as failed:
        report = failed.report
        # The cause is not known where nobody had heard it when the block was decided.
        heard = [(fampi.CAUSE_KILLED, signal.SIGKILL), (fampi.CAUSE_UNKNOWN, 0)]
        faults = [fampi.Fault(2, fampi.ERR_PROC_FAILED_SOFT, *cause) for cause in heard]
        assert report in [((fault,), (2,)) for fault in faults], report
        assert failed.requests == (0,), failed.requests
        assert failed.code == fampi.ERR_TRYBLOCK_FOUND_ERRORS
    else:
        raise AssertionError("committed")
    with world.block() as block:
        if world.rank != 3:
            block.Irecv(took[0], source=world.rank ^ 1)
            block.Isend(numpy.full(1, 5.0), dest=world.rank ^ 1)
    assert world.rank == 3 or took[0] == 5
    sys.stdout.write(f"report: {report!r}\n")


def waits(world):
    """A wait in a block ends with the code of the death, and the block tells it as its cause."""
    try:
        with world.block() as block:
            if world.rank == 2:
                time.sleep(0.05)
                die()
            block.Irecv(numpy.zeros(1), source=2).Wait()
    except fampi.BlockFailed as failed:
        assert failed.report.dead == (2,)
        assert failed.__cause__.Get_error_class() in (MPI.ERR_PROC_FAILED, fampi.ERR_INTERRUPTED)
    else:
        raise AssertionError("committed")


class Watched(numpy.ndarray):
    """An array that weak references can be made to."""


def stranger(world):
    """A block does not commit where a call of mpi4py's own has thrown a rank out of it."""
    world.comm.Set_errhandler(MPI.ERRORS_RETURN)
    try:
        with world.block():
            if world.rank == 2:
                die()
    except fampi.BlockFailed as failed:
        assert failed.report.dead == (2,)
    for _ in range(2):
        faults = ()
        try:
            # The death is old, and no fault of this block.
            with world.block():
                if world.rank == 1:
                    world.comm.Recv(numpy.zeros(1), source=2)
        except fampi.BlockFailed as failed:
            faults = failed.report.faults
        assert faults == (fampi.Fault(1, fampi.ERR_TRANSIENT, 0, 0),), faults
        with world.block() as block:
            pass


def kept(world):
    """What MPI still works on stays, whoever has let go of it; then it goes."""
    stranger = MPI.COMM_WORLD
    gone = None
    try:
        with world.block() as block:
            if world.rank == 2:
                time.sleep(0.05)
                die()
            # A message that is received late, on a communicator that fampi does not know.
            if world.rank == 0:
                array = numpy.ones(100_000).view(Watched)
                gone = weakref.ref(array)
                request = block.add(stranger.Isend(array, dest=1, tag=9))
                del array
                block.Irecv(numpy.zeros(1), source=2)
    except fampi.BlockFailed:
        pass
    else:
        raise AssertionError("committed")
    if world.rank == 0:
        assert fampi.cut_short() == [request]
        assert gone() is not None
        del request
    with world.block():
        pass
    if world.rank == 1:
        took = numpy.zeros(100_000)
        stranger.Recv(took, source=0, tag=9)
        assert took.sum() == 100_000
    if world.rank == 0:
        begun = time.monotonic()
        while fampi.cut_short():
            assert time.monotonic() - begun < 20
        assert gone() is None


def uncaught(world):
    """An exception that nobody catches on one rank is no hang of the others."""
    with world.block():
        pass
    if world.rank == 2:
        raise KeyError("nobody catches this")
    try:
        with world.block() as block:
            block.Irecv(numpy.zeros(1), source=2)
    except fampi.BlockFailed as failed:
        sys.stdout.write(f"{world.rank}: passed, {failed}\n")
    sys.exit(0)


def rebuilt(world):
    """A replacement has the rank of the dead, and its state."""
    count = numpy.array([0, 10 * world.rank])
    is_new = world.is_replacement
    while count[0] < 40:
        try:
            with world.block() as block:
                if is_new:
                    block.restore(0, count)
                ahead = count + [1, 1]
                block.protect(0, ahead)
                if count[0] == 20 and world.rank == 2 and not world.is_replacement:
                    die()
            count, is_new = ahead, False
        except fampi.BlockFailed as failed:
            assert failed.report.dead == (2,), failed
            assert world.recover() and world.size == 4 and not world.recover()
            is_new = True
    assert list(count) == [40, 10 * world.rank + 40], count
    with world.block():
        pass


with fampi.World() as world:
    globals()[sys.argv[1]](world)
    if sys.argv[1] != "rebuilt":
        world.free()
    sys.stdout.write(f"{world.is_replacement}: passed\n")

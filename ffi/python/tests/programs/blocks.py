"""Blocks without a death: what each operation does, and what comes out of a `with`."""

import pickle
import sys
import time

import numpy
from mpi4py import MPI

import fampi


def same(found, expected):
    assert numpy.array_equal(found, expected), (found, expected)


def operations(world):
    """Each operation has the result of mpi4py's own."""
    comm, rank, size = world.comm, world.rank, world.size
    mine = numpy.arange(3.0) + 10 * rank
    whole = numpy.arange(size, dtype="i") + 100 * rank
    took = {name: numpy.zeros(3) for name in ("message", "sync", "all", "scan", "exscan")}
    root = numpy.zeros(3) if rank == 1 else None
    cast = numpy.full(2, float(rank))
    gathered, everyone = numpy.zeros((size, 3)), numpy.zeros((size, 3))
    part, exchanged = numpy.zeros(1, "i"), numpy.zeros(size, "i")
    left, right = (rank - 1) % size, (rank + 1) % size
    with world.block() as block:
        block.Irecv(took["message"], source=left, tag=7)
        block.Irecv(took["sync"], source=left, tag=8)
        block.Isend(mine, dest=right, tag=7)
        block.Issend(mine, dest=right, tag=8)
        block.Ibarrier()
        block.Ibcast(cast, root=2)
        block.Iallreduce(mine, took["all"], op=MPI.MAX)
        block.Ireduce(mine, root, root=1)
        block.Iscan(mine, took["scan"])
        block.Iexscan(mine, took["exscan"])
        block.Igather(mine, gathered if rank == 0 else None)
        block.Iscatter(whole if rank == 0 else None, part)
        block.Iallgather(mine, everyone)
        block.Ialltoall(whole, exchanged)
    expected = numpy.array([numpy.arange(3.0) + 10 * other for other in range(size)])
    same(took["message"], expected[left])
    same(took["sync"], expected[left])
    same(cast, [2.0, 2.0])
    same(took["all"], expected.max(axis=0))
    same(took["scan"], expected[:rank + 1].sum(axis=0))
    same(took["exscan"], expected[:rank].sum(axis=0))
    same(everyone, expected)
    if rank == 1:
        same(root, expected.sum(axis=0))
    if rank == 0:
        same(gathered, expected)
    same(part, [rank])
    check = numpy.zeros(size, "i")
    comm.Alltoall(whole, check)
    same(exchanged, check)


def buffers(world):
    """What mpi4py takes for a buffer is one here, and what it refuses is refused."""
    rank, other = world.rank, world.rank ^ 1
    given = [numpy.arange(4).astype(kind) for kind in "bBhHiIlLfdFD?"]
    given += [bytearray(b"abcd"), memoryview(bytearray(b"1234"))]
    took = [numpy.zeros_like(it) if hasattr(it, "dtype") else bytearray(4) for it in given]
    few, much = numpy.arange(6.0), numpy.zeros(6)
    with world.block() as block:
        for tag, (it, into) in enumerate(zip(given, took)):
            block.Irecv(into, source=other, tag=tag)
            block.Isend(it, dest=other, tag=tag)
        block.Irecv([much, 2, MPI.DOUBLE], source=other, tag=90)
        block.Isend([few, 2, MPI.DOUBLE], dest=other, tag=90)
        block.Irecv([much[3:], "d"], source=other, tag=91)
        block.Isend([few[3:], MPI.DOUBLE], dest=other, tag=91)
        for wrong, error in [
            (lambda: block.Isend(few[::2], dest=other), (BufferError, ValueError)),
            (lambda: block.Irecv(b"read only", source=other), BufferError),
            (lambda: block.Isend([few, 7, MPI.DOUBLE], dest=other), ValueError),
            (lambda: block.Isend(object(), dest=other), TypeError),
            (lambda: block.Iallreduce(few, numpy.zeros(7)), ValueError),
            (lambda: block.finish_allreduce(few[:1], numpy.zeros(2)), ValueError),
            (lambda: block.Isend(few, dest=99), fampi.Error),
            (lambda: block.Isend(few, dest=other, tag=fampi.MAX_TAG + 1), fampi.Error),
        ]:
            try:
                wrong()
            except error:
                continue
            raise AssertionError("not refused")
    for it, into in zip(given, took):
        assert bytes(it) == bytes(into), (it, into)
    same(much, [0, 1, 0, 3, 4, 5])
    place = numpy.array([float(rank)])
    with world.block(fampi.WITH_COLLECTIVE) as block:
        block.Iallreduce(MPI.IN_PLACE, place)
    same(place, [sum(range(world.size))])


def own(world):
    """Requests of mpi4py's own are in a block what those of fampi are."""
    other = world.rank ^ 1
    took, all_ = numpy.zeros(1), numpy.zeros(1)
    persistent = world.comm.Send_init(numpy.array([1.5]), dest=other, tag=3)
    for _ in range(2):
        persistent.Start()
        with world.block() as block:
            received = block.add(world.comm.Irecv(took, source=other, tag=3))
            block.add(persistent)
            block.add(world.comm.Iallreduce(numpy.ones(1), all_))
            status = MPI.Status()
            fampi.wait(received, status)
            assert (status.Get_source(), status.Get_count(MPI.DOUBLE)) == (other, 1)
        same(took, [1.5])
        same(all_, [world.size])
        assert received == MPI.REQUEST_NULL and persistent != MPI.REQUEST_NULL
    persistent.Free()


def early(world):
    """A value that is needed in the block is waited for, with a status."""
    took, status = numpy.zeros(2, "i"), MPI.Status()
    left, right = (world.rank - 1) % world.size, (world.rank + 1) % world.size
    with world.block() as block:
        received = block.Irecv(took, source=left, tag=5)
        sent = block.Isend(numpy.array([world.rank, 1], "i"), dest=right, tag=5)
        assert received.Wait(status) and received.Test()
        assert (status.Get_source(), status.Get_tag(), status.Get_count(MPI.INT)) == (left, 5, 2)
        same(took, [left, 1])
        fampi.Request.Waitall([sent, received])
        block.forget(received)
    assert sent == MPI.REQUEST_NULL and received == MPI.REQUEST_NULL


def raised(world):
    """A fault of the program is in the report of all ranks, and the next block commits."""
    for expected in (4711, fampi.ERR_PERMANENT):
        try:
            with world.block() as block:
                if world.rank == 1:
                    block.raise_error(expected)
        except fampi.BlockFailed as failed:
            assert failed.report.faults == (fampi.Fault(1, expected),), failed
            assert failed.report.dead == () and failed.report.codes() == {expected}
        else:
            raise AssertionError("committed")
        with world.block():
            pass


def left(world):
    """An exception that leaves a block on one rank goes on there; the others are told."""
    took = numpy.zeros(1)
    try:
        with world.block() as block:
            if world.rank == 1:
                raise KeyError("of the program")
            block.Irecv(took, source=1).Wait()
    except KeyError:
        assert world.rank == 1
    except fampi.BlockFailed as failed:
        assert world.rank != 1 and failed.report.codes() == {fampi.ERR_LEFT}, failed
        assert failed.report.faults[0].rank == 1
    else:
        raise AssertionError("committed")
    # Who has left did not know the verdict when it started the next block: that is faulty, too.
    for attempt in range(5):
        try:
            with world.block() as block:
                block.Irecv(took, source=world.rank ^ 1)
                block.Isend(numpy.ones(1), dest=world.rank ^ 1)
            break
        except fampi.BlockFailed as failed:
            assert attempt < 3 and failed.report.dead == (), failed
    same(took, [1])


def late(world):
    """The time limit of a wait tells nothing; the block is decided when the late rank comes."""
    block = world.block()
    if world.rank == 1:
        time.sleep(0.3)
    block.finish()
    try:
        block.wait(timeout=0.05)
        assert world.rank == 1
    except fampi.Timeout as error:
        assert error.code == fampi.ERR_TIMEOUT
    block.wait(timeout=20)
    block.close()
    # A request that is not over in time is a fault.
    block = world.block()
    if world.rank == 1:
        block.Irecv(numpy.zeros(1), source=0)
    block.finish(timeout=0.05)
    try:
        block.wait()
    except fampi.BlockFailed as failed:
        assert failed.report.codes() == {fampi.ERR_TIMEOUT}, failed
        assert failed.report.faults[0].rank == 1
        assert failed.requests == ((0,) if world.rank == 1 else ())
    else:
        raise AssertionError("committed")
    block.close()


def fused(world):
    """A reduction on the commit, whose result is there with it."""
    total = numpy.zeros(2)
    for step in range(3):
        with world.block() as block:
            block.finish_allreduce(numpy.array([1.0, world.rank * step]), total)
        same(total, [world.size, step * sum(range(world.size))])


def codes(world):
    """Errors are those of mpi4py's users: codes, classes, sentences."""
    error = fampi.Error(fampi.ERR_PROC_FAILED_SOFT)
    assert isinstance(error, MPI.Exception) and isinstance(error, RuntimeError)
    assert error.Get_error_class() == MPI.ERR_PROC_FAILED == error.error_class
    assert error.Get_error_code() == error.code == fampi.ERR_PROC_FAILED_SOFT
    assert "process" in str(error) and str(error) == error.Get_error_string()
    assert fampi.Error(MPI.ERR_TRUNCATE).Get_error_class() == MPI.ERR_TRUNCATE
    fault = fampi.Fault(1, fampi.ERR_PROC_FAILED_SOFT, fampi.CAUSE_KILLED, 9)
    report = fampi.Report((fault,), (1,))
    failed = fampi.BlockFailed(fampi.ERR_TRYBLOCK_FOUND_ERRORS, report, (0, 2))
    again = pickle.loads(pickle.dumps(failed))
    assert (again.code, again.report, again.requests) == (failed.code, report, (0, 2))
    assert str(failed) == "the block is faulty: rank 1: a process failed (signal 9)", failed
    assert "Fault tolerance is on." in fampi.doctor()
    assert world.comm.Get_size() == world.size


def refused(world):
    """Buffers that are missing, or do not fit, are refused before anything is sent."""
    def refuses(error, call, *arguments, **words):
        try:
            call(*arguments, **words)
        except error:
            return
        raise AssertionError(f"{call} took {arguments}")

    double, integer, two = numpy.ones(1), numpy.ones(1, "i"), numpy.zeros(2)
    single = numpy.ones(1, "f")
    block = world.block()
    for call in (block.Isend, block.Issend, block.Irecv):
        refuses(TypeError, call, None, 0)
    refuses(TypeError, block.Ibcast, None)
    for call in (block.Iallreduce, block.Iscan, block.Iexscan):
        refuses(TypeError, call, double, None)
        for other in (integer, single, two):
            refuses(ValueError, call, other, double)
    for call in (block.Iallgather, block.Ialltoall):
        refuses(TypeError, call, numpy.zeros(world.size), None)
    refuses(TypeError, block.Ireduce, double, None, root=world.rank)
    refuses(TypeError, block.Ireduce, None, None, root=(world.rank + 1) % world.size)
    refuses(ValueError, block.Ireduce, single, double, root=world.rank)
    refuses(TypeError, block.Igather, double, None, root=world.rank)
    refuses(TypeError, block.Iscatter, None, double, root=world.rank)
    refuses(TypeError, block.finish_allreduce, double, None)
    refuses(ValueError, block.finish_allreduce, integer, double)
    refuses(ValueError, block.Isend, [numpy.zeros(3, "f"), MPI.DOUBLE], 0)
    block.finish()
    block.wait()
    block.close()


def in_place(world):
    """No buffer to send is the other one, as for mpi4py."""
    size, rank = world.size, world.rank
    sums, scan, root = (numpy.full(1, rank + 1.0) for _ in range(3))
    parts = numpy.where(numpy.arange(size) == rank, rank + 1.0, 0.0)
    with world.block() as block:
        block.Iallreduce(None, sums)
        block.Iscan(None, scan)
        block.Iallgather(None, parts)
        if rank == 0:
            block.Ireduce(None, root)
        else:
            block.Ireduce(root, None)
    whole = numpy.arange(size) + 1.0
    same(sums, [whole.sum()])
    same(scan, [whole[:rank + 1].sum()])
    same(parts, whole)
    if rank == 0:
        same(root, [whole.sum()])
    fused = numpy.full(1, rank + 1.0)
    with world.block() as block:
        block.finish_allreduce(None, fused)
    same(fused, [whole.sum()])


def deadline(world):
    """Another end with a reduction moves the deadline, and the first one's array has the result."""
    took, other = numpy.zeros(1), numpy.zeros(1)
    if world.rank == 1:
        time.sleep(0.3)
    with world.block() as block:
        block.finish_allreduce(numpy.ones(1), took, timeout=0.1)
        block.finish_allreduce(numpy.ones(1), other, timeout=20)
    assert (took[0], other[0]) == (world.size, 0), (took, other)


def memory(world):
    """Blocks keep no array and no memory in the long run."""
    import resource

    mine, theirs = numpy.ones(100), numpy.zeros(100)
    other = world.rank ^ 1

    def many(number):
        for _ in range(number):
            with world.block() as block:
                block.Irecv(theirs, source=other)
                block.Isend(mine, dest=other)
                block.Iallreduce(mine, theirs.copy())

    many(2000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    many(8000)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 2000, f"{grown} KiB more"
    # One reference is the variable, and one the argument.
    counts = sys.getrefcount(mine), sys.getrefcount(theirs)
    assert counts == (2 + 1, 2 + 1) or counts == (2, 2), counts
    assert not fampi.cut_short()


with fampi.World() as world:
    for what in sys.argv[1:]:
        globals()[what](world)
        sys.stdout.write(f"{world.rank}: passed {what}\n")

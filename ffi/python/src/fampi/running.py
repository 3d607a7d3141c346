"""A run: a whole application driven through its steps, whoever dies on the way.

    enter ─▶ join: begin with a state, or bring it back ─▶ step ─▶ step ─▶ … ─▶ done
              ▲                                             │
              └── retry, shrink, rebuild ◀── policy ◀── faulty, at any place

*Join* is one block for all cases: the first start, the way back after a fault, the entrance of a
replacement. Its ranks tell each other whether a state is protected; if not, each protects what it
begins with, and otherwise each gets the protected one, with the number of its steps. Under `fampi
run --checkpoint` it may come from files: where ranks have died with those who kept their states, and
under `fampi restart`.
"""

import os
import signal
from array import array

from mpi4py import MPI

from . import _core, codes
from .errors import BlockFailed, Error, Report, Stopped
from .policies import Decision, Rebuild, Situation

SETTLE_SECONDS = 10
LOST = codes.ERR_STATE_LOST, codes.ERR_TOO_MANY_LOST


def _keys(state):
    """Where the arrays of a state are in it, in the same order on all ranks; None for an array."""
    if isinstance(state, dict):
        return sorted(state)
    if isinstance(state, (list, tuple)):
        return range(len(state))
    return None


class _State:
    """The arrays of an application, which change in place."""

    def __init__(self, state):
        self.state = state

    def arrays(self):
        """The arrays, in the order of their slots."""
        keys = _keys(self.state)
        return [self.state] if keys is None else [self.state[key] for key in keys]

    def put(self, place, raw):
        """Takes an array of another length than the one that is there."""
        keys = _keys(self.state)
        if keys is None:
            raise ValueError("the array has another length than the protected one: use a dict")
        self.state[keys[place]] = _like(self.state[keys[place]], raw).copy()


def _like(known, raw):
    """Bytes as an array with the type and the order of a known one, and its shape but for the number
    that is the outermost in memory."""
    import numpy

    flat = numpy.frombuffer(raw, known.dtype)
    if known.flags.f_contiguous and not known.flags.c_contiguous:
        return flat.reshape((*known.shape[:-1], -1), order="F")
    return flat.reshape((-1, *known.shape[1:]))


def planned_death(rank):
    """The step, counted from 1, in which `--kill RANK@step:K` has this rank die."""
    for kill in os.environ.get("FAMPI_KILL", "").split(","):
        of, _, when = kill.partition("@")
        word, _, number = when.partition(":")
        if of == str(rank) and word in ("step", "iteration", "cycle") and number.isdigit():
            return int(number)
    return None


class Run:
    """Where a run is."""

    def __init__(self, world, step, state, policy, interval, redundancy, inherit):
        self.world, self.body, self.state = world, step, _State(state)
        self.policy = policy or Rebuild()
        self.interval, self.redundancy, self.inherit = interval, redundancy, inherit
        # Committed steps; None as long as the ranks have to join.
        self.number = None
        # 1 if a state is protected: a replacement does not know it.
        self.protected = 0
        # Steps that were committed, and that were protected; of what was lost as well.
        self.furthest = self.latest = self.faulty = 0
        # The steps that lead to the protected state.
        self.kept = 0
        # The report of a block in which a state could not be brought back.
        self.lost = None
        # The states were protected on this communicator, so none is to be inherited.
        self.whole = True
        launched_as = MPI.COMM_WORLD.Get_rank()
        self.dies_in = None if world.is_replacement else planned_death(launched_as)

    def drive(self):
        """Runs to the end."""
        is_done = False
        while not is_done:
            number = self.number
            try:
                if number is None:
                    self.join()
                else:
                    is_done = self.step(number)
            except BlockFailed as failed:
                self.answer(failed, number)

    def join(self):
        """All ranks get their states, and learn where the run is."""
        known = array("q", [0, 0, 0, 0])
        with self.world.block() as block:
            where, gone = self.where(block)
            mine = array("q", [self.protected, self.faulty, self.furthest, self.latest])
            block.Iallreduce(mine, known, op=MPI.MAX).Wait()
            number = 0
            begins = known[0] == 0 and where != codes.STATES_IN_FILES
            if gone is not None and not begins:
                # No checkpoint has it.
                raise Stopped(gone.code, self.lost or Report((), ())) from gone
            if not begins:
                number = self.restore(block)
            if begins or not self.whole:
                self.protect(block, number)
        self.protected, self.kept, self.lost = 1, number, None
        self.faulty, self.furthest, self.latest = known[1:]
        self.number, self.whole = number, True

    def where(self, block):
        """Where the states are, and the error of all ranks where one is lost."""
        try:
            return block.restart()[0], None
        except Error as error:
            if error.code not in LOST:
                raise
            return codes.STATES_NOWHERE, error

    def restore(self, block):
        """Brings the protected state back; the number of its steps."""
        count = array("q", [0])
        block.restore(0, count)
        for place, own in enumerate(self.state.arrays()):
            try:
                block.restore(place + 1, own)
            except ValueError:
                self.state.put(place, block.restored(place + 1))
        if not self.whole and self.inherit is not None:
            self.take_over(block)
        return count[0]

    def take_over(self, block):
        """Gives the application the state of a dead rank that is kept here."""
        kept = block.inherited(0)
        if kept is None:
            return
        arrays = self.state.arrays()
        raw = [block.inherited(place + 1)[1] for place in range(len(arrays))]
        dead = [_like(own, raw) for own, raw in zip(arrays, raw)]
        keys = _keys(self.state.state)
        if keys is None:
            dead = dead[0]
        elif isinstance(self.state.state, dict):
            dead = dict(zip(keys, dead))
        self.inherit(self.state.state, kept[0], dead)

    def protect(self, block, number):
        """Protects the state after so many steps."""
        if self.redundancy is not None:
            block.set_redundancy(*self.redundancy)
        block.protect(0, array("q", [number]))
        for place, own in enumerate(self.state.arrays()):
            block.protect(place + 1, own)

    def step(self, number):
        """One step of the application; whether it was the last."""
        if self.dies_in == number + 1:
            os.kill(os.getpid(), signal.SIGKILL)
        protects = (number + 1) % self.interval == 0
        votes = array("q", [0, 0])
        with self.world.block() as block:
            block.checkpoint(self.kept)
            says_done = bool(self.body(block, self.state.state))
            if protects:
                block.wait_all()
                self.protect(block, number + 1)
            block.finish_allreduce(array("q", [says_done, 1]), votes)
        if 0 < votes[0] < votes[1]:
            raise ValueError("the step was the last one on some ranks and not on the others")
        # What is done again after going back to a checkpoint is no progress.
        is_new = protects and number + 1 > self.latest
        if is_new or number + 1 > self.furthest:
            self.faulty = 0
        if protects:
            self.kept = number + 1
            self.latest = max(self.latest, self.kept)
        self.number = number + 1
        self.furthest = max(self.furthest, self.number)
        return votes[0] > 0

    def answer(self, failed, number):
        """Does what the policy says about a faulty block."""
        report = failed.report
        lost = next((code for code in LOST if code in report.codes()), None)
        if lost is not None:
            if number is not None:
                raise Stopped(lost, report) from failed
            # A checkpoint may have it, which the next attempt finds out. That is no repetition at
            # first; who has just joined does not know of an earlier one.
            self.faulty += self.lost is not None
            self.lost = report
        else:
            self.faulty += 1
        self.number = None
        decision = self.policy(Situation(
            report, self.world.size, number, self.faulty, self.world.shrunk))
        if decision is Decision.STOP:
            raise Stopped(lost or failed.code, report) from failed
        if decision is Decision.REBUILD:
            self.world.recover()
        elif decision is Decision.SHRINK:
            self.world.shrink()
            self.whole = False
        elif decision is not Decision.RETRY:
            raise TypeError(f"a policy gives a fampi.Decision, not {decision!r}")
        # States come back into arrays that a receive may still write to.
        if not _core.settle(SETTLE_SECONDS):
            raise Error(codes.ERR_PENDING)

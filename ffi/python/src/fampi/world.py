"""A world that survives: blocks on it, and the next one after a death."""

import sys

from . import _core, codes
from .errors import Error
from .running import Run


def own_command():
    """The words that start this program again, for replacements."""
    return [sys.executable, *sys.orig_argv[1:]]


class World:
    """All ranks of the job, and after a recovery those that go on, with replacements for others.

    All processes of the launch make one, and so does a replacement, which comes out of it with the
    rank of a dead one: `is_replacement` is true then. Spares of the launch (`cargo fampi run
    --spares 2`) wait in it until they are needed. `command` is what a new process runs, by default
    this program; with an empty one none is started.
    """

    _has_run = False

    def __init__(self, recovery=codes.RECOVERY_REBUILD, command=None):
        words = own_command() if command is None else list(command)
        self._comm, self.is_replacement = _core.world_init(recovery, words or None)
        self._entered = self._comm
        self.recovery = recovery

    @property
    def comm(self):
        """Its communicator, one of mpi4py's; `recover` makes another."""
        return self._comm

    @property
    def rank(self):
        """The rank of this process."""
        return self._comm.Get_rank()

    @property
    def size(self):
        """How many ranks there are."""
        return self._comm.Get_size()

    def block(self, level=codes.GLOBAL):
        """A block of all living ranks, for a `with`."""
        return _core.Block(self._comm, level)

    @property
    def shrunk(self):
        """It has shrunk by `shrink`, and is not rebuilt any more."""
        return self._comm is not self._entered

    def recover(self):
        """Replaces the world where a block on it was faulty by a death; whether it did.

        All living ranks call it after the same block. Rank and size may be others then.
        """
        if self.shrunk:
            raise Error(codes.ERR_STATE)
        before = self._comm
        self._comm = self._entered = _core.world_recover(before)
        return self._comm is not before

    def shrink(self):
        """Goes on without the dead, whatever the world was made for; all living ranks call it."""
        if self.recovery == codes.RECOVERY_SHRINK:
            self.recover()
            return
        before = self._comm
        self._comm = _core.shrink(before)
        if before is not self._entered:
            before.Free()
        _core.cut_short()

    def run(self, step, state, policy=None, interval=1, redundancy=None, inherit=None):
        """Runs an application step by step, whoever dies on the way.

        `step(block, state)` does one step in a block, and returns true with the last one, on all
        ranks. It changes the arrays of the state in place: an array, or a list or dict of arrays.
        With the block's commit they are protected at a partner, after each step or each
        `interval` steps; `redundancy` is what `Block.set_redundancy` takes. After a faulty block
        the `policy` decides, by default `fampi.Rebuild()`; then all go back to the protected
        states, and replacements, which enter the same call, get those of the dead. What a step
        changes elsewhere is not taken back. A program has one run that replacements can enter; in
        another one on the same world the arrays have the same lengths.

        After a shrink `inherit(state, rank, dead)` gets the state of a dead rank on the one that
        has kept it; it may put longer arrays into a list or dict. Without it that state is
        dropped.

        Under `fampi run --checkpoint` the first run of a program saves what it has protected, and
        goes back to it where partners have died at once; a job under `fampi restart` goes on from
        there, with as many ranks. Where one of these cannot be, there is a `fampi.Error` on all
        ranks with `ERR_CHECKPOINTS_EXIST` or `ERR_NO_CHECKPOINT`. Later runs save nothing.

        Raises `fampi.Stopped` on all living ranks where the policy says so, or a state is lost.
        """
        if World._has_run:
            # Its steps begin anew, and the files are those of the first one.
            _core.save_nothing()
        World._has_run = True
        Run(self, step, state, policy, interval, redundancy, inherit).drive()

    def free(self):
        """Ends the world, after the last block, and lets the spares go."""
        if self.shrunk:
            self._comm.Free()
            self._comm = self._entered
        if self._comm:
            _core.world_free(self._comm)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.free()
        return False

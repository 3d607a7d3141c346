"""A world that survives: blocks on it, and the next one after a death."""

import sys

from . import _core, codes


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

    def __init__(self, recovery=codes.RECOVERY_REBUILD, command=None):
        words = own_command() if command is None else list(command)
        self._comm, self.is_replacement = _core.world_init(recovery, words or None)
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

    def recover(self):
        """Replaces the world where a block on it was faulty by a death; whether it did.

        All living ranks call it after the same block. Rank and size may be others then.
        """
        before = self._comm
        self._comm = _core.world_recover(before)
        return self._comm is not before

    def free(self):
        """Ends the world, after the last block, and lets the spares go."""
        if self._comm:
            _core.world_free(self._comm)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.free()
        return False

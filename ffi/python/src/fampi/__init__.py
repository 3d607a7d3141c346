"""Transactions that let MPI programs survive the death of processes, beside mpi4py.

    with fampi.World() as world:
        with world.block() as block:
            block.Isend(mine, dest=right)
            block.Irecv(theirs, source=left)

A block ends with its `with`, in which all living ranks agree on one verdict and one report of what
failed. `World.run` does the rest: it drives steps, keeps their states at partners, and recovers.
"""

from mpi4py import MPI

from . import _core


def _same_mpi():
    """Refuses to work beside an mpi4py that was built for another MPI."""
    ours, theirs = _core.mpi_library().strip("\0 \n"), MPI.Get_library_version().strip("\0 \n")
    if ours != theirs:
        raise ImportError(
            f"fampi uses {ours.splitlines()[0]} and mpi4py {theirs.splitlines()[0]}: build "
            "both with one MPICC (`pip install --no-binary mpi4py mpi4py`)"
        )


_same_mpi()

from ._core import (  # noqa: E402
    Block, Request, agree, cut_short, doctor, error_string, saved, set_patience, shrink,
    take_into_use, wait,
)
from .codes import *  # noqa: E402, F403
from .errors import BlockFailed, Error, Fault, Report, Stopped, Timeout  # noqa: E402
from .policies import Decision, Rebuild, Retry, Shrink, Situation, Stop  # noqa: E402
from .world import World  # noqa: E402

__version__ = "0.1.0"

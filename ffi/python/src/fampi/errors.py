"""Exceptions: what went wrong, as a code of fampi or of MPI, and what a faulty block reports."""

from typing import NamedTuple

from mpi4py import MPI

from . import codes
from ._core import error_string


class Fault(NamedTuple):
    """A fault of a report, the same on all living ranks."""

    rank: int
    """The rank that it concerns, in the communicator of the block."""
    code: int
    """`fampi.ERR_PROC_FAILED_SOFT` for a death, another code of fampi, or one that was raised."""
    cause: int = codes.CAUSE_UNKNOWN
    """How a dead rank died: `fampi.CAUSE_KILLED` or another of these constants."""
    value: int = 0
    """The signal or the exit status of a dead rank, as the cause says."""

    def is_death(self):
        """Whether a process is gone, alone or with its node."""
        return self.code in (codes.ERR_PROC_FAILED_SOFT, codes.ERR_PROC_FAILED_HARD)

    def __str__(self):
        how = ""
        if self.cause == codes.CAUSE_KILLED:
            how = f" (signal {self.value})"
        elif self.cause == codes.CAUSE_EXITED:
            how = f" (exit status {self.value})"
        return f"rank {self.rank}: {error_string(self.code)}{how}"


class Report(NamedTuple):
    """What was wrong in a block, the same on all living ranks."""

    faults: tuple[Fault, ...]
    """All faults that are new in this block."""
    dead: tuple[int, ...]
    """All ranks that the communicator has lost, in this block or before it."""

    def codes(self):
        """The codes of the faults."""
        return frozenset(fault.code for fault in self.faults)

    def __str__(self):
        return "; ".join(map(str, self.faults)) or "an earlier block was; run it again"


class Error(MPI.Exception):
    """A call did not do what it was asked for. Its code is one of fampi or one of MPI."""

    def __new__(cls, code, *rest):
        return super().__new__(cls, code)

    def __init__(self, code, *rest):
        super().__init__(code)
        self.code = code

    def __reduce__(self):
        return type(self), (self.code,)

    def Get_error_code(self):
        """The code."""
        return self.code

    error_code = property(Get_error_code)

    def Get_error_class(self):
        """MPI's class for a death and for MPI's own codes; each other code is its own."""
        if self.code in (
            codes.ERR_PROC_FAILED, codes.ERR_PROC_FAILED_SOFT, codes.ERR_PROC_FAILED_HARD
        ):
            return MPI.ERR_PROC_FAILED
        return self.code if codes.is_own(self.code) else MPI.Get_error_class(self.code)

    error_class = property(Get_error_class)

    def Get_error_string(self):
        """A sentence."""
        return error_string(self.code)

    error_string = property(Get_error_string)

    def __str__(self):
        return error_string(self.code)

    def __repr__(self):
        return f"{type(self).__name__}({self.code}: {error_string(self.code)})"


class Timeout(Error):
    """Not over within the time limit of a wait, which says nothing about the outcome."""


class BlockFailed(Error):
    """A block is faulty, on all living ranks alike: what it did does not count."""

    def __init__(self, code, report, requests=()):
        super().__init__(code)
        self.report = report
        """The `Report`, the same on all living ranks."""
        self.requests = requests
        """The places of this rank's requests that failed, in the order in which they came."""

    def __reduce__(self):
        return type(self), (self.code, self.report, self.requests)

    def __str__(self):
        return f"the block is faulty: {self.report}"

    def __repr__(self):
        return f"BlockFailed({self})"


class Stopped(Error):
    """A run has ended, as its policy decided, on all living ranks alike."""

    def __init__(self, code, report):
        super().__init__(code)
        self.report = report
        """The `Report` of the block after which it ended."""

    def __reduce__(self):
        return type(self), (self.code, self.report)

    def __str__(self):
        return f"the run has stopped: {self.report}"

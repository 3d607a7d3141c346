"""What a run does about a faulty block.

A policy is a function of a `Situation`, and all living ranks have to get the same answer from it:
no clock, no rank, no chance.
"""

import enum
from typing import NamedTuple

from .errors import Report

MOST_ATTEMPTS = 5


class Decision(enum.Enum):
    """What to do; in each case all ranks first go back to the protected states."""

    RETRY = "run the step again on the same ranks"
    SHRINK = "go on without the dead"
    REBUILD = "put replacements in the places of the dead"
    STOP = "end the run with `Stopped`, on all living ranks"


class Situation(NamedTuple):
    """What a policy has to judge, the same on all living ranks."""

    report: Report
    """The faults of the block, and all the dead of the communicator."""
    ranks: int
    """How many ranks the communicator has, living and dead."""
    step: int | None
    """The number of the step, from 0; None while states are brought back."""
    faulty_in_a_row: int
    """Faulty blocks since the run was farther than before them; at least 1."""
    shrunk: bool
    """The run has shrunk; it cannot rebuild any more."""


class _Patient:
    """Does the same after each death, and retries without one, so many times in a row."""

    at_a_death = Decision.STOP

    def __init__(self, times=MOST_ATTEMPTS):
        self.times = times

    def __call__(self, situation):
        if situation.faulty_in_a_row > self.times:
            return Decision.STOP
        return self.at_a_death if situation.report.dead else Decision.RETRY


class Retry(_Patient):
    """Retries a step without a death; stops at a death."""


class Shrink(_Patient):
    """Goes on without the dead; retries without a death."""

    at_a_death = Decision.SHRINK


class Rebuild(_Patient):
    """Replaces the dead, by spares first and then by new processes; retries without a death."""

    at_a_death = Decision.REBUILD


class Stop(_Patient):
    """Stops at the first faulty block."""

    def __init__(self):
        super().__init__(0)

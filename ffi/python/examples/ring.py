"""A ring that goes on when a rank dies: each passes its number on, and all count what came round.

    KILL_PLAN=50:2 cargo fampi run -n 4 -- python3 ring.py

Rank 2 of this run is killed in round 50; the others shrink the world and go on without it.
"""

import sys

import numpy
from plan import die_if_planned

import fampi

ROUNDS = 200


def pass_on(world, launched_as, done):
    """One round: the number of the rank on the left."""
    mine, theirs = numpy.array([launched_as]), numpy.empty(1, int)
    with world.block() as block:
        block.Irecv(theirs, source=(world.rank - 1) % world.size)
        die_if_planned(launched_as, done)
        block.Isend(mine, dest=(world.rank + 1) % world.size)
    return int(theirs[0])


def main():
    with fampi.World(fampi.RECOVERY_SHRINK) as world:
        launched_as, done, deaths = world.rank, 0, 0
        while done < ROUNDS:
            try:
                left = pass_on(world, launched_as, done)
                done += 1
            except fampi.BlockFailed as failed:
                deaths += sum(fault.is_death() for fault in failed.report.faults)
                if world.rank == 0:
                    print(f"round {done}: {failed.report}", file=sys.stderr)
                world.recover()
        sys.stdout.write(f"{launched_as}: {done} rounds, {deaths} deaths, {left} on the left\n")


main()

"""A ring that goes on when a rank dies: each passes its number on, and all count what came round.

    cargo fampi run -n 4 --kill 2@step:50 -- python3 ring.py

Rank 2 of this run is killed in round 50; the others shrink the world and go on without it.
"""

import os
import signal
import sys

import numpy

import fampi

ROUNDS = 200


def die_if_planned(launched_as, done):
    """Dies as a crashing process would: `KILL_PLAN="50:2"` kills rank 2 in round 50."""
    for kill in os.environ.get("KILL_PLAN", "").split():
        cycle, rank, *how = kill.split(":")
        if (int(cycle), int(rank)) == (done, launched_as):
            if how == ["exit"]:
                os._exit(3)
            os.kill(os.getpid(), signal.SIGKILL)


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

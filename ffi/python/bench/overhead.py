"""What a block costs in Python, beside mpi4py's own `Iallreduce` and `Wait` of one number.

    cargo fampi run -n 2 -- python3 bench/overhead.py

The kinds take turns, 60 or as many as the first word says, in one run. Printed are the medians of
the turns, and those of the ratios of each turn to that of mpi4py beside it.
"""

import statistics
import sys
import time

import numpy
from mpi4py import MPI

import fampi

TURNS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
TURN = 200


def plain(world, mine, all_):
    """mpi4py's own."""
    for _ in range(TURN):
        world.comm.Iallreduce(mine, all_).Wait()


def empty(world, mine, all_):
    """A block without requests."""
    for _ in range(TURN):
        with world.block():
            pass


def reduces(world, mine, all_):
    """A block with the same reduction, which rides on its commit."""
    for _ in range(TURN):
        with world.block(fampi.WITH_COLLECTIVE) as block:
            block.Iallreduce(mine, all_)


def fused(world, mine, all_):
    """A block that ends with the same reduction."""
    for _ in range(TURN):
        with world.block() as block:
            block.finish_allreduce(mine, all_)


def foreign(world, mine, all_):
    """A block with mpi4py's own reduction in it."""
    for _ in range(TURN):
        with world.block() as block:
            block.add(world.comm.Iallreduce(mine, all_))


def main():
    kinds = [plain, empty, reduces, fused, foreign]
    with fampi.World() as world:
        mine, all_ = numpy.ones(1), numpy.zeros(1)
        took = {kind: [] for kind in kinds}
        for turn in range(TURNS + 2):
            for kind in kinds:
                world.comm.Barrier()
                begun = time.perf_counter()
                kind(world, mine, all_)
                lasted = (time.perf_counter() - begun) / TURN
                if turn >= 2:
                    took[kind].append(lasted)
        assert all_[0] == world.size
        if world.rank == 0:
            print(f"{world.size} ranks, {MPI.Get_library_version().split(',')[0]}, "
                  f"Python {sys.version.split()[0]}")
            for kind in kinds:
                ratios = [ours / theirs for ours, theirs in zip(took[kind], took[plain])]
                print(f"{statistics.median(took[kind]) * 1e6:8.2f} µs  "
                      f"ratio {statistics.median(ratios):5.2f}  {kind.__doc__}", flush=True)


main()

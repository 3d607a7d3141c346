"""Heat on a plate, by Jacobi's method on a grid of ranks, with the same digits whoever dies.

    cargo fampi run -n 4 --kill 1@step:150 -- python3 jacobi.py

Each rank has a part of the plate and exchanges its edges with its neighbours. A rank that dies is
replaced by a new process, or by a spare, which gets its part from its partner, and all go on from
the last step that was committed.
"""

import hashlib
import sys

import numpy
from mpi4py import MPI
from plan import die_if_planned

import fampi

POINTS, STEPS = 48, 300


def part_of(world):
    """The plate of this rank with a rim of one point; the upper edge of the whole is hot."""
    rows, columns = MPI.Compute_dims(world.size, 2)
    if POINTS % rows or POINTS % columns:
        raise SystemExit(f"{POINTS} x {POINTS} points are not for {rows} x {columns} ranks")
    plate = numpy.zeros((POINTS // rows + 2, POINTS // columns + 2))
    if world.rank < columns:
        plate[0, :] = 1.0
    return plate


def neighbours(world):
    """The rank on each side that has one, with our edge and our rim there."""
    rows, columns = MPI.Compute_dims(world.size, 2)
    row, column = divmod(world.rank, columns)
    inner = slice(1, -1)
    if row > 0:
        yield world.rank - columns, (1, inner), (0, inner)
    if row < rows - 1:
        yield world.rank + columns, (-2, inner), (-1, inner)
    if column > 0:
        yield world.rank - 1, (inner, 1), (inner, 0)
    if column < columns - 1:
        yield world.rank + 1, (inner, -2), (inner, -1)


def main():
    with fampi.World() as world:
        launched_as = MPI.COMM_WORLD.Get_rank()
        wholes = []

        def step(block, state):
            plate, count = state["plate"], state["count"]
            rims = []
            for other, edge, rim in neighbours(world):
                block.Isend(plate[edge].copy(), dest=other)
                rims.append((rim, numpy.empty(plate[rim].shape)))
                block.Irecv(rims[-1][1], source=other)
            die_if_planned(launched_as, int(count[0]), world.is_replacement)
            block.wait_all()
            for rim, values in rims:
                plate[rim] = values
            plate[1:-1, 1:-1] = (
                plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]) / 4
            count += 1
            if count[0] < STEPS:
                return False
            mine = plate[1:-1, 1:-1].copy()
            wholes[:] = [numpy.empty((world.size, *mine.shape)) if world.rank == 0 else None]
            block.Igather(mine, wholes[0])
            return True

        world.run(step, {"plate": part_of(world), "count": numpy.zeros(1, int)}, fampi.Rebuild())
        if world.rank == 0:
            heat, bits = wholes[0].sum(), hashlib.sha256(wholes[0].tobytes()).hexdigest()[:16]
            sys.stdout.write(f"{world.size} ranks, {STEPS} steps: heat {heat:.3f}, bits {bits}\n")


main()

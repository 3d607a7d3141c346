"""Runs by policies: what comes out of them when ranks die, and when they do not."""

import os
import signal
import sys

import numpy
from mpi4py import MPI

import fampi

STEPS = 24
launched_as = MPI.COMM_WORLD.Get_rank()


def die(world, step, *plan):
    """Kills the processes of a plan, which had these ranks at the launch, in these steps."""
    if not world.is_replacement and (step, launched_as) in plan:
        os.kill(os.getpid(), signal.SIGKILL)


def counting(world, *plan, raised=()):
    """A step that counts each number up by what all ranks say, and a state to begin with."""
    again = list(raised)

    def step(block, state):
        die(world, -int(state["step"][0]), *plan)
        one = numpy.zeros(1, int)
        block.Iallreduce(numpy.ones(1, int), one, op=MPI.MAX).Wait()
        state["own"] += one
        if int(state["step"][0]) in again:
            again.remove(int(state["step"][0]))
            if world.rank == 1:
                block.raise_error(fampi.ERR_TRANSIENT)
        die(world, int(state["step"][0]), *plan)
        state["step"] += 1
        return state["step"][0] == STEPS

    return step, {"own": 100 * launched_as + numpy.arange(3), "step": numpy.zeros(1, int)}


def sum_of(world, state):
    """All numbers of all ranks."""
    total = numpy.zeros(2, int)
    with world.block() as block:
        own = state["own"]
        block.Iallreduce(numpy.array([own.sum(), len(own)]), total)
    return list(total)


def expected(ranks):
    own = numpy.array([100 * rank + numpy.arange(3) + STEPS for rank in ranks])
    return [own.sum(), own.size]


def rebuild(world):
    """Replacements have the numbers of the dead; deaths before, in and after others' waits."""
    step, state = counting(world, (0, 1), (-7, 3), (12, 0), (20, 2))
    world.run(step, state)
    assert state["step"][0] == STEPS and world.size == 4
    assert sum_of(world, state) == expected(range(4)), state


def rarely(world):
    """States that are protected in some steps only."""
    step, state = counting(world, (0, 1), (11, 0), (17, 2), raised=[3, 22])
    world.run(step, state, fampi.Rebuild(), interval=5)
    assert sum_of(world, state) == expected(range(4)), state


def groups(world):
    """States in a code over a group, of which two die at once."""
    step, state = counting(world, (6, 0), (6, 2))
    world.run(step, state, redundancy=(fampi.REDUNDANCY_GROUP, 4, 2))
    assert sum_of(world, state) == expected(range(4)), state


def inherit(world):
    """Survivors take over the numbers of the dead, one after the other."""

    def take_over(state, rank, dead):
        assert dead["step"][0] == state["step"][0]
        state["own"] = numpy.concatenate([state["own"], dead["own"]])

    step, state = counting(world, (5, 1), (9, 3))
    world.run(step, state, fampi.Shrink(), inherit=take_over)
    assert world.size == 2 and world.shrunk
    assert sum_of(world, state) == expected(range(4)), (state, expected(range(4)))


def ordered(world):
    """An array whose first index is the innermost in memory is taken over as it was."""
    def grid(rank):
        return numpy.asfortranarray(numpy.arange(12.0).reshape(4, 3) + 100 * rank)

    found = []

    def take_over(state, rank, dead):
        assert numpy.array_equal(dead["grid"], grid(rank)), dead["grid"]
        state["own"] = numpy.concatenate([state["own"], dead["own"]])
        found.append(rank)

    step, state = counting(world, (5, 1))
    state["grid"] = grid(world.rank)
    world.run(step, state, fampi.Shrink(), inherit=take_over)
    assert sum(world.comm.allgather(len(found))) == 1
    assert sum_of(world, state) == expected(range(4)), (state, expected(range(4)))


def drop(world):
    """Without a function for it the numbers of the dead are gone."""
    step, state = counting(world, (5, 1), (9, 3))
    world.run(step, state, fampi.Shrink())
    assert world.size == 2
    assert sum_of(world, state) == expected([0, 2]), state


def retry(world):
    """A fault without a death: the step is done again with the state before it."""
    step, state = counting(world, raised=[0, 3, 23])
    world.run(step, state, fampi.Retry())
    assert sum_of(world, state) == expected(range(4)), state


def stop(world):
    """A policy of the program, which ends the run on all ranks with the report."""
    seen = []

    def policy(situation):
        seen.append(situation)
        return fampi.Decision.STOP if situation.report.dead else fampi.Decision.RETRY

    step, state = counting(world, (6, 2), raised=[3])
    try:
        world.run(step, state, policy)
    except fampi.Stopped as stopped:
        assert stopped.report.dead == (2,), stopped
    else:
        raise AssertionError("done")
    assert [(it.step, it.faulty_in_a_row, it.ranks) for it in seen] == [(3, 1, 4), (6, 1, 4)], seen


def twice(world):
    """Two runs, each with a state of its own to begin with, of which the second is longer."""
    for first in (0, -8):
        step, state = counting(world)
        state["step"][:] = first
        state["own"] += first
        world.run(step, state)
        assert sum_of(world, state) == expected(range(4)), state


def again(world):
    """Two that keep each other's states die in one step, whoever they are: that is given up."""
    step, state = counting(world)

    def dying(block, state):
        if state["step"][0] == 9 and world.rank % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(block, state)

    try:
        world.run(dying, state, fampi.Rebuild(times=3))
    except fampi.Stopped:
        return
    raise AssertionError("done")


def lost(world):
    """A rank and its partner die at once: all others are told that the state is lost."""
    step, state = counting(world, (6, 1), (6, 3))
    try:
        world.run(step, state)
    except fampi.Stopped as stopped:
        assert stopped.code == fampi.ERR_STATE_LOST, stopped
    else:
        raise AssertionError("done")


def unequal(world):
    """A step that is the last one on some ranks only is a mistake that all are told of."""
    try:
        world.run(lambda block, state: world.rank == 0, numpy.zeros(3))
    except ValueError:
        return
    raise AssertionError("done")


def plain(world):
    """An array and a list are states, too."""
    for state in (numpy.zeros(3), [numpy.zeros(3), numpy.zeros(1)]):
        first = state if isinstance(state, numpy.ndarray) else state[0]

        def step(block, state):
            first[:] += 1
            return first[0] == 5

        world.run(step, state)
        assert list(first) == [5, 5, 5]


with fampi.World() as world:
    for what in sys.argv[1:]:
        globals()[what](world)
        sys.stdout.write(f"{world.rank}: passed {what}\n")

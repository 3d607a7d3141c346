"""Blocks on real ranks: what they do where nobody dies, and what they say where somebody does."""

import pytest


def test_blocks_without_a_death(launch):
    kinds = (
        "operations buffers own early raised left late fused codes refused in_place deadline memory"
    ).split()
    launch(4, "blocks.py", *kinds).expect(4 * len(kinds))


@pytest.mark.parametrize("plan, living", [
    ("", 4), ("50:2", 3), ("20:1 20:3", 2), ("20:1 60:0:exit", 2),
])
def test_a_ring_goes_on_when_ranks_die(launch, plan, living):
    job = launch(4, "ring.py", KILL_PLAN=plan).expect(living, "200 rounds")
    alive = sorted(int(line.split(":")[0]) for line in job.lines())
    for place, line in enumerate(job.lines()):
        assert line.endswith(f" {alive[place - 1]} on the left"), str(job)


def test_survivors_of_a_death_have_one_report(launch):
    job = launch(4, "deaths.py", "reports").expect(3)
    told = [line for line in job.lines() if line.startswith("report: ")]
    assert len(told) == 3 and len(set(told)) == 1, str(job)


@pytest.mark.parametrize("what", ["waits", "kept", "stranger"])
def test_survivors_of_a_death(launch, what):
    launch(4, "deaths.py", what).expect(3)


def test_an_exception_that_nobody_catches_ends_the_job(launch):
    job = launch(4, "deaths.py", "uncaught").expect(3, status=1)
    assert "nobody catches this" in job.errors


@pytest.mark.parametrize("spares", [0, 1])
def test_a_replacement_has_the_rank_and_the_state_of_the_dead(launch, spares):
    job = launch(4, "deaths.py", "rebuilt", flags=["--spares", str(spares)])
    job.expect(4)
    assert sum("True" in line for line in job.lines()) == 1, str(job)

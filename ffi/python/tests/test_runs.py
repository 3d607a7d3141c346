"""Runs on real ranks: results are those without a death, whoever dies in whichever step."""

import pytest


def test_jacobi_has_the_same_digits_whoever_dies(launch):
    undisturbed = launch(4, "jacobi.py").expect(1, "4 ranks, 300 steps").output
    for flags, plan in [
        (["--kill", "1@step:150"], ""),
        (["--kill", "0@step:1", "--spares", "1"], ""),
        ([], "20:2 299:0"),
        ([], "40:1:exit 41:3"),
    ]:
        job = launch(4, "jacobi.py", flags=flags, KILL_PLAN=plan)
        job.expect(1, "4 ranks, 300 steps")
        assert job.output == undisturbed, f"{undisturbed}{job}"


@pytest.mark.parametrize("what, living", [
    ("rebuild", 4), ("rarely", 4), ("groups", 4), ("inherit", 2), ("drop", 2), ("stop", 3),
])
def test_a_run_goes_on_as_its_policy_says(launch, what, living):
    launch(4, "runs.py", what).expect(living)


def test_a_lost_state_is_told_to_all(launch):
    launch(4, "runs.py", "lost").expect(4)


def test_runs_without_a_death(launch):
    launch(4, "runs.py", "retry", "unequal", "plain").expect(12)

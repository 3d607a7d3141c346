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


def sets(folder):
    """The starts of the job of which there are checkpoints, each with its steps."""
    names = (file.name.split("-") for file in folder.iterdir())
    return sorted({(int(words[1]), int(words[2])) for words in names})


def test_a_run_goes_back_to_its_checkpoint_and_another_job_goes_on_from_there(launch, tmp_path):
    undisturbed = launch(4, "jacobi.py").expect(1, "4 ranks, 300 steps").output
    saving = ["--checkpoint-every", "5"]
    # Two that keep each other's states, at once: the run itself goes back.
    own = ["--checkpoint", str(tmp_path / "own"), *saving]
    job = launch(4, "jacobi.py", flags=own, KILL_PLAN="32:1 32:3").expect(1, "4 ranks, 300 steps")
    assert job.output == undisturbed, str(job)
    assert sets(tmp_path / "own") == [(2, 295)], str(job)
    # All at once.
    all_ = ["--checkpoint", str(tmp_path / "all"), *saving]
    job = launch(4, "jacobi.py", flags=all_, KILL_PLAN="32:0 32:1 32:2 32:3")
    assert job.status != 0 and job.output == "", str(job)
    assert sets(tmp_path / "all") == [(1, 30)], str(job)
    again = launch(4, "jacobi.py", flags=saving, do=("restart", str(tmp_path / "all")),
                   KILL_PLAN="100:2")
    again.expect(1, "4 ranks, 300 steps")
    assert again.output == undisturbed, str(again)
    assert sets(tmp_path / "all") == [(2, 295)], str(again)


def test_only_the_first_run_of_a_program_saves(launch, tmp_path):
    flags = ["--checkpoint", str(tmp_path / "two"), "--checkpoint-every", "4"]
    launch(4, "runs.py", "twice", flags=flags).expect(4)
    assert sets(tmp_path / "two") == [(1, 20)]


def test_a_step_that_kills_partners_each_time_is_given_up_in_spite_of_checkpoints(launch, tmp_path):
    flags = ["--checkpoint", str(tmp_path / "again"), "--checkpoint-every", "4"]
    launch(4, "runs.py", "again", flags=flags).expect(2)


@pytest.mark.parametrize("what, living", [
    ("rebuild", 4), ("rarely", 4), ("groups", 4), ("inherit", 2), ("ordered", 3), ("drop", 2), ("stop", 3),
])
def test_a_run_goes_on_as_its_policy_says(launch, what, living):
    launch(4, "runs.py", what).expect(living)


def test_a_lost_state_is_told_to_all(launch):
    launch(4, "runs.py", "lost").expect(4)


def test_runs_without_a_death(launch):
    launch(4, "runs.py", "retry", "unequal", "plain").expect(12)

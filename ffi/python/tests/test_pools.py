"""Pools on real ranks: the interface, and workers that die."""

import pytest

MODULE = "fampi.futures"


def test_a_pool_whose_workers_live(launch):
    kinds = "again interface errors own as_given large hasty too_large".split()
    launch(4, "pools.py", *kinds, module=MODULE).expect(len(kinds))


def test_tasks_that_wait_when_the_program_ends_are_done(launch, tmp_path):
    launch(4, "pools.py", "queued", module=MODULE, MARKS=str(tmp_path)).expect(1)
    assert len(list(tmp_path.iterdir())) == 40


def test_a_pool_whose_dead_cannot_be_replaced_goes_on_with_the_living(launch, tmp_path):
    launch(4, "pools.py", "abandoned", module=MODULE, MARKS=str(tmp_path), UNREPLACED="yes").expect(1)


def test_a_program_that_workers_cannot_load_fails_its_tasks(launch):
    launch(4, "pools.py", "unready", module=MODULE, UNREADY="yes").expect(1)


@pytest.mark.parametrize("what", [["deaths"], ["poison", "initializer"], ["broken", "idle"]])
def test_a_pool_outlives_its_workers(launch, tmp_path, what):
    job = launch(4, "pools.py", *what, module=MODULE, MARKS=str(tmp_path))
    job.expect(len(what))


def test_a_pool_outlives_workers_that_leave(launch, tmp_path):
    launch(4, "pools.py", "deaths", module=MODULE, MARKS=str(tmp_path), HOW="exit").expect(1)


def test_the_results_of_a_pool_are_those_without_deaths(launch, tmp_path):
    undisturbed = launch(4, "pool.py", module=MODULE).expect(1, "in all")
    variables = {"DEADLY": "3 50 51 120", "DEADLY_MARKS": str(tmp_path)}
    job = launch(4, "pool.py", module=MODULE, flags=["--spares", "1"], **variables)
    assert job.expect(1, "in all").output == undisturbed.output, str(job)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_pool_ends_with_its_program(launch):
    job = launch(4, "pools.py", "mistake", module=MODULE).expect(0, status=1)
    assert "of the program" in job.errors, str(job)
    job = launch(4, "pools.py", "master", module=MODULE)
    assert job.status not in (0, 124) and "passed" not in job.output, str(job)


def test_a_pool_without_workers_says_how_to_start_it(launch):
    job = launch(1, "pools.py", "interface").expect(0, status=1)
    assert "-m fampi.futures" in job.errors, str(job)

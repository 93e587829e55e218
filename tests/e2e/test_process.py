# SPDX-License-Identifier: MIT
"""Processes of one job: each has its own trace and rank, and those that are not wanted cost nothing."""

import pytest

from harness import JOBS, python

SCRIPT = JOBS / "processes.py"


def check(vramtrace, path, processes):
    report = vramtrace.json("report", path)
    assert report["recording"]["complete"]
    assert [process["end"] for process in report["process_list"]] == ["exit"] * processes
    assert [device["driver"]["allocs"] for device in report["devices"]] == [3] * processes
    return report["process_list"]


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_workers_that_use_cuda_have_their_own_traces(vramtrace, record, how):
    done = record(SCRIPT, how)
    assert (done.status, done.stderr) == (0, "")
    assert len({process["pid"] for process in check(vramtrace, done.path, 3)}) == 3


@pytest.mark.parametrize("rank, local", [
    ({"RANK": "5", "LOCAL_RANK": "1"}, 1),
    ({"SLURM_PROCID": "5", "SLURM_LOCALID": "2", "SLURM_JOB_ID": "77"}, 2),
    ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "3"}, 3),
    ({"RANK": "5", "SLURM_PROCID": "9"}, None),
])
def test_ranks(vramtrace, record, rank, local):
    done = record(SCRIPT, "alone", env=rank)
    (process,) = check(vramtrace, done.path, 1)
    assert (process["rank"], process["local_rank"]) == (5, local)


def test_no_rank(vramtrace, record):
    (process,) = check(vramtrace, record(SCRIPT, "alone").path, 1)
    assert (process["rank"], process["local_rank"]) == (None, None)


def states(done):
    """For each script that ran, by mode, whether the recorder had its state there."""
    lines = [line.split() for line in done.stdout.splitlines()]
    return {mode: has_state == "True" for _, mode, has_state in lines}


@pytest.mark.parametrize("only, recorded", [
    ("processes.py", True),
    ("python*,!sh", True),
    ("!processes.py", False),
    ("train.py", False),
])
def test_only_some_programs(vramtrace, record, only, recorded):
    """What is left out runs with the hooks alone: no state, no file. `run` says as usual that nothing was recorded."""
    done = record(SCRIPT, "alone", options=["--only", only])
    assert (done.status, done.stderr) == (0, "")
    assert states(done) == {"alone": recorded}
    assert done.path.exists() == recorded


def test_a_launcher_that_is_left_out_passes_the_choice_on(vramtrace, record, tmp_path):
    launcher = tmp_path / "launcher.py"
    launcher.write_text(SCRIPT.read_text())
    done = vramtrace.record(tmp_path / "job.vtr", python(launcher, "start", SCRIPT), options=["--only", "*,!launcher.py,!sh"])
    assert (done.status, done.stderr) == (0, "")
    assert states(done) == {"alone": True, "start": False}
    check(vramtrace, done.path, 1)

# SPDX-License-Identifier: MIT
"""Ranks that end early: what the others see of it, what the recording has, and that nothing is left behind."""

import json
import signal
from pathlib import Path

import pytest

from harness import JOBS, python, trace_files
from test_coverage_distributed import TWO, check_ledgers, read_job, torchrun

WORKER = JOBS / "distributed" / "worker.py"


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Mailboxes of communicators have a name only while ranks join."""
    before = set(Path("/dev/shm").glob("simgpu-nccl-*"))
    yield
    assert set(Path("/dev/shm").glob("simgpu-nccl-*")) - before == set()


def ends(vramtrace, recording):
    """How each process ended, by rank, in the order of their starts."""
    processes = vramtrace.json("report", recording)["process_list"]
    found = {}
    for process in sorted(processes, key=lambda process: process["start_unix_ns"]):
        found.setdefault(process["rank"], []).append(process["end"])
    return found


def record_ranks(vramtrace, folder, program, env=None):
    return vramtrace.record(folder / "job.vtr", program, gpu="2xh100", env=env)


def test_without_destroying_the_process_group(vramtrace, tmp_path):
    done = record_ranks(vramtrace, tmp_path, torchrun(2, WORKER, "--no-destroy", tmp_path, "ddp"))
    assert done.status == 0, done.stderr
    check_ledgers(read_job(vramtrace, done.path, tmp_path, TWO), TWO)


def test_torchrun_ends_the_others(vramtrace, tmp_path):
    done = record_ranks(vramtrace, tmp_path, torchrun(2, WORKER, tmp_path, "killed"))
    assert done.status == 1
    assert "Signal 9 (SIGKILL)" in done.stderr
    assert ends(vramtrace, done.path) == {0: ["killed"], 1: ["killed"]}


def test_the_other_rank_gets_an_error(vramtrace, tmp_path):
    """Without torchrun the rank that is left gets NCCL's documented error for it at its next collective."""
    done = record_ranks(vramtrace, tmp_path, python("distributed/two_ranks.py", tmp_path, "killed"))
    assert json.loads(done.stdout.splitlines()[-1]) == [1, -signal.SIGKILL]
    assert "simgpu: rank 0 of 2: rank 1 has ended" in done.stderr
    assert "ncclRemoteError" in done.stderr
    assert ends(vramtrace, done.path) == {0: ["exit"], 1: ["killed"]}


@pytest.mark.slow
def test_torchrun_starts_a_second_attempt(vramtrace, tmp_path):
    program = torchrun(2, "--max-restarts=1", WORKER, tmp_path, "fails_once")
    # By default both attempts of PyTorch 2.11 share a store, and the second may read what the first has left there.
    done = record_ranks(vramtrace, tmp_path, program, env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})
    assert done.status == 0, done.stderr
    assert len(trace_files(done.path)) == 4
    # In the first attempt either rank ends by its error or by torchrun's signal, whichever comes first.
    assert [(len(end), end[-1]) for end in ends(vramtrace, done.path).values()] == [(2, "exit")] * 2
    ledgers = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert [ledger["cases"]["fails_once"]["seen"] for ledger in ledgers] == [1, 1]

# SPDX-License-Identifier: MIT
"""kill -9 at any instant: the trace reads, says so, and holds every allocation that the program had counted."""

import concurrent.futures
import ctypes
import mmap
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import TREE, program_environment, python

CRASH = TREE / "tests" / "crash"
SEED = 20240601
KILLS_OF_GPT = 20
WAIT_S = 120
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


class SharedCounts:
    """The page of 64-bit numbers in which a program under test counts its allocations."""

    def __init__(self, path):
        path.write_bytes(bytes(4096))
        self.path = path
        with open(path, "r+b") as file:
            self.words = memoryview(mmap.mmap(file.fileno(), 4096)).cast("Q")

    def __getitem__(self, index):
        return self.words[index]

    def wait_for_first(self, process):
        end = time.monotonic() + WAIT_S
        while not self[0] and process.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        assert self[0] and process.poll() is None, "the program ended before its first allocation"


def kill_once(vramtrace, folder, program, options, delay_s):
    """Record `program` (which gets --counter FILE), kill it `delay_s` after its first allocation, read the trace."""
    folder.mkdir()
    counts = SharedCounts(folder / "counts")
    argv = vramtrace.run_argv(folder / "job.vtr", [*program, "--counter", counts.path], options=options)
    process = subprocess.Popen(
        [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=program_environment(),
    )
    try:
        counts.wait_for_first(process)
        time.sleep(delay_s)
        children = children_of(process.pid)
    finally:
        process.kill()
        process.wait()
    for child in children:
        wait_for_orphan(child)
    counted = counts[0]
    report = vramtrace.json("report", folder / "job.vtr")
    verified = vramtrace.call("verify", folder / "job.vtr")
    return counted, report, verified


@pytest.fixture
def adopts_orphans():
    """A supervised program dies with its launcher, but not in the same instant: this process must wait for it."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def children_of(pid):
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in tasks for child in children.read_text().split()]


def wait_for_orphan(pid):
    """Wait for the last thread of a process whose parent has been killed."""
    end = time.monotonic() + WAIT_S
    while not os.waitpid(pid, os.WNOHANG)[0]:
        assert time.monotonic() < end, "the program outlived its killed launcher"
        time.sleep(0.01)


def check_killed(report):
    assert report["recording"]["end"] == "killed"
    assert [process["end"] for process in report["process_list"]] == ["killed"]
    assert report["recording"]["lost_events"] == 0
    assert report["devices"][0]["exact"]


def test_gpt_killed_twenty_times(vramtrace, adopts_orphans, tmp_path):
    """Half of the kills hit the program itself (--exec), half its launcher, with which it dies."""
    rng = random.Random(SEED)
    delays = [rng.uniform(0, 2) for _ in range(KILLS_OF_GPT)]
    program = python("gpt.py", "--steps", "1000000")

    def kill(number):
        options = ["--exec"] if number % 2 else []
        return kill_once(vramtrace, tmp_path / str(number), program, options, delays[number])

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for counted, report, verified in pool.map(kill, range(KILLS_OF_GPT)):
            check_killed(report)
            assert verified.returncode == 0, verified.stdout + verified.stderr
            # The job counts after each module and each step: a bound from below.
            assert report["devices"][0]["tensor"]["allocs"] >= counted > 0


@pytest.mark.parametrize("number", range(4))
def test_every_counted_tensor_is_there(vramtrace, tmp_path, number):
    delay_s = random.Random(SEED + number).uniform(0, 1)
    counted, report, _ = kill_once(vramtrace, tmp_path / "run", python("alloc_loop.py"), ["--exec"], delay_s)
    check_killed(report)
    assert counted <= report["devices"][0]["tensor"]["allocs"] <= counted + 1


def test_killed_before_the_first_allocation(vramtrace, tmp_path):
    """Nothing was recorded, so there is nothing to find; but what is found must read."""
    process = subprocess.Popen(
        [str(word) for word in vramtrace.run_argv(tmp_path / "job.vtr", python("gpt.py"), options=["--exec"])],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=program_environment(),
    )
    time.sleep(0.3)  # torch takes longer than that to import
    process.kill()
    process.wait()
    if (tmp_path / "job.vtr").exists():
        assert vramtrace.json("report", tmp_path / "job.vtr")["recording"]["end"] == "killed"


@pytest.fixture(scope="module")
def driver_loop(compile_c, cuda_flags):
    """A C program that allocates driver memory for ever: hundreds of thousands of events a second."""
    return compile_c(CRASH / "driver_loop.c", *cuda_flags)


@pytest.fixture(scope="module")
def kill_at_write(compile_c):
    return compile_c(CRASH / "kill_at_write.c", "-shared", "-fPIC", "-ldl")


def check_driver_counts(vramtrace, recording, counts):
    report = vramtrace.json("report", recording)
    assert report["recording"]["end"] == "killed"
    assert report["recording"]["lost_events"] == 0
    driver = report["devices"][0]["driver"] if report["devices"] else {"allocs": 0, "frees": 0}
    assert counts[0] <= driver["allocs"] <= counts[0] + 1
    assert counts[1] <= driver["frees"] <= counts[1] + 1


@pytest.mark.parametrize("number", range(10))
def test_driver_loop_killed_at_random(vramtrace, driver_loop, tmp_path, number):
    counts = SharedCounts(tmp_path / "counts")
    env = vramtrace.preload_environment(
        vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", VRAMTRACE_OUTPUT=tmp_path / "job.vtr"
    )
    process = subprocess.Popen([driver_loop, counts.path], env=env)
    try:
        counts.wait_for_first(process)
        time.sleep(random.Random(SEED + number).uniform(0, 0.3))
    finally:
        process.kill()
        process.wait()
    check_driver_counts(vramtrace, tmp_path / "job.vtr", counts)


@pytest.mark.parametrize("how", ["before", "middle", "after"])
@pytest.mark.parametrize("write", range(6))
def test_killed_at_a_write(vramtrace, driver_loop, kill_at_write, tmp_path, write, how):
    """Before, in the middle of and after the recorder's N-th write: nothing is lost, nothing counted twice."""
    counts = SharedCounts(tmp_path / "counts")
    env = vramtrace.preload_environment(
        vramtrace.interpose,
        vramtrace.simgpu / "libsimgpu.so",
        kill_at_write,
        VRAMTRACE_OUTPUT=tmp_path / "job.vtr",
        KILL_AT_WRITE=write,
        KILL_HOW=how,
    )
    done = subprocess.run([driver_loop, counts.path, "3000000"], env=env, timeout=WAIT_S)
    assert done.returncode == -signal.SIGKILL, "the recorder never made that write"
    if not list((tmp_path / "job.vtr").glob("*.vtr")):
        # Killed inside its first allocation, before the trace had a header and thus a name: nothing was counted.
        assert write < 2 and counts[0] == 0
        check = vramtrace.call("report", tmp_path / "job.vtr")
        assert check.returncode == 2 and "no trace" in check.stderr
    else:
        check_driver_counts(vramtrace, tmp_path / "job.vtr", counts)

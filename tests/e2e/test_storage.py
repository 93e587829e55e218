# SPDX-License-Identifier: MIT
"""Storage that fails under a recording: at every call, with every reason, once or for good; and clocks that are set.

The program is unharmed, what could be stored reads and is exact, and what could not is stated.
"""

import errno
import subprocess
import time
from pathlib import Path

import pytest

from harness import LIMIT_S

CRASH = Path(__file__).resolve().parents[1] / "crash"
PAIRS = 60_000  # more than fit into a ring: the recorder writes about a dozen frames
WRITES = 12
FIRST_WRITE = 2  # those before are the header and the first definitions, without which there is no trace
FOR_GOOD = {"ENOSPC": "disk full", "EDQUOT": "disk full", "EFBIG": "disk full", "EIO": "write failed", "EROFS": "write failed"}


@pytest.fixture(scope="module")
def programs(compile_c, cuda_flags):
    return (
        compile_c(CRASH / "driver_loop.c", *cuda_flags),
        compile_c(CRASH / "fail_calls.c", "-shared", "-fPIC", "-ldl"),
    )


@pytest.fixture
def recorded_with(vramtrace, programs, tmp_path):
    """recorded_with(call, at, with, times): the recording, and the allocations and frees that the program counted."""
    program, fault = programs

    def run(call, at=0, reason="EIO", times=None, **environment):
        counts = tmp_path / "counts"
        counts.write_bytes(bytes(4096))
        fault_environment = {"FAIL_CALL": call, "FAIL_AT": at, "FAIL_WITH": getattr(errno, reason, reason)}
        if times:
            fault_environment["FAIL_TIMES"] = times
        env = vramtrace.preload_environment(
            vramtrace.interpose,
            vramtrace.simgpu / "libsimgpu.so",
            fault,
            VRAMTRACE_OUTPUT=tmp_path / "job.vtr",
            **fault_environment,
            **environment,
        )
        done = subprocess.run([program, counts, str(PAIRS)], env=env, capture_output=True, text=True, timeout=LIMIT_S)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        counted = [int.from_bytes(counts.read_bytes()[at : at + 8], "little") for at in (0, 8)]
        assert counted[0] == PAIRS
        return tmp_path / "job.vtr", counted

    return run


def check_whole(vramtrace, recording, counted):
    report = vramtrace.json("report", recording)
    assert report["recording"]["lost_events"] == 0
    driver = report["devices"][0]["driver"]
    assert [driver["allocs"], driver["frees"]] == counted
    assert vramtrace.call("verify", recording).returncode == 0


def check_stopped(vramtrace, recording, counted, why):
    """It reads, holds what was stored, and says that it ends early, and why."""
    report = vramtrace.json("report", recording)
    (process,) = vramtrace.json("info", recording)["process_list"]
    assert process["stopped"] == why
    devices = report["devices"]
    stored = devices[0]["driver"]["allocs"] if devices else 0
    assert stored < counted[0]
    assert not report["recording"]["complete"]
    said = vramtrace.call("report", recording).stderr
    assert "stopped after" in said and "what came later is missing" in said


@pytest.mark.parametrize("reason", FOR_GOOD)
@pytest.mark.parametrize("at", range(FIRST_WRITE, WRITES, 3))
def test_writes_that_fail_for_good(vramtrace, recorded_with, at, reason):
    recording, counted = recorded_with("pwrite", at, reason)
    check_stopped(vramtrace, recording, counted, FOR_GOOD[reason])


@pytest.mark.parametrize("at", range(FIRST_WRITE, WRITES))
def test_every_write_can_be_the_first_to_fail(vramtrace, recorded_with, at):
    recording, counted = recorded_with("pwrite", at, "ENOSPC")
    check_stopped(vramtrace, recording, counted, "disk full")


@pytest.mark.parametrize("at", range(0, WRITES, 2))
@pytest.mark.parametrize("reason", ["EINTR", "short"])
def test_writes_that_take_two(vramtrace, recorded_with, at, reason):
    recording, counted = recorded_with("pwrite", at, reason, times=3)
    check_whole(vramtrace, recording, counted)


def test_all_writes_are_short(vramtrace, recorded_with):
    recording, counted = recorded_with("pwrite", 0, "short", times=100)
    check_whole(vramtrace, recording, counted)


def test_what_cannot_be_cut_back(vramtrace, recorded_with):
    """Half a frame stays at the end: it is recognised."""
    recording, counted = recorded_with("ftruncate")
    check_whole(vramtrace, recording, counted)


@pytest.mark.parametrize("call", ["open", "mkdir", "pwrite", "rename"])
def test_no_recording_can_be_begun(vramtrace, recorded_with, call):
    """Then there is none, and nothing that looks like one."""
    recording, _ = recorded_with(call)
    assert not list(recording.glob("*.vtr")) if recording.exists() else True
    assert not list(recording.glob("*.ring")) if recording.exists() else True
    assert not list(recording.glob("*.new")) if recording.exists() else True


@pytest.mark.parametrize("call", ["fallocate", "mmap"])
@pytest.mark.parametrize("times", [1, 100])
def test_a_file_system_without_what_rings_need(vramtrace, recorded_with, tmp_path, call, times):
    """No room in full, or no shared mappings: the ring file lies elsewhere, or is shared memory, and that is said."""
    (tmp_path / "node").mkdir()
    recording, counted = recorded_with(call, 0, "ENODEV", times, TMPDIR=tmp_path / "node", VRAMTRACE_RINGS="folder")
    check_whole(vramtrace, recording, counted)
    (storage,) = (process["storage"] for process in vramtrace.json("info", recording)["process_list"])
    assert storage == ("temporary" if times == 1 else "shared")
    assert not list((tmp_path / "node").iterdir())


def test_memory_that_nobody_keeps(vramtrace, recorded_with):
    """There is no `run` that would hold it: that is said."""
    recording, counted = recorded_with("link", 0, "EPERM", VRAMTRACE_RINGS="memory")
    check_whole(vramtrace, recording, counted)
    (process,) = vramtrace.json("info", recording)["process_list"]
    assert process["storage"] == "anonymous" and "kill -9 loses" in process["storage_promise"]


def test_a_folder_that_is_renamed_meanwhile(vramtrace, programs, tmp_path):
    """All of it is where the folder is now, the ring file is gone, and nothing is left in its old place."""
    counts = tmp_path / "counts"
    counts.write_bytes(bytes(4096))
    env = vramtrace.preload_environment(
        vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", VRAMTRACE_OUTPUT=tmp_path / "job.vtr"
    )
    with subprocess.Popen([programs[0], counts, str(10 * PAIRS)], env=env) as process:
        while not counts.read_bytes()[1] and process.poll() is None:  # 256 allocations
            time.sleep(0.001)
        (tmp_path / "job.vtr").rename(tmp_path / "moved.vtr")
        assert process.poll() is None
    assert process.returncode == 0
    counted = [int.from_bytes(counts.read_bytes()[at : at + 8], "little") for at in (0, 8)]
    check_whole(vramtrace, tmp_path / "moved.vtr", counted)
    assert not list((tmp_path / "moved.vtr").glob("*.ring"))
    assert not (tmp_path / "job.vtr").exists()


def test_no_links(vramtrace, recorded_with):
    recording, counted = recorded_with("link", 0, "EPERM")
    check_whole(vramtrace, recording, counted)


def test_rings_that_cannot_be_added(vramtrace, recorded_with):
    """The first ring file is there, and its growth fails: a program of one thread needs no more."""
    recording, counted = recorded_with("fallocate", 1, "ENOSPC", VRAMTRACE_RINGS="folder")
    check_whole(vramtrace, recording, counted)


def test_a_clock_that_jumps(vramtrace, programs, compile_c, tmp_path):
    """Times are of the clock that nobody sets."""
    jumps = compile_c(CRASH / "clock_jumps.c", "-shared", "-fPIC")
    counts = tmp_path / "counts"
    counts.write_bytes(bytes(4096))
    env = vramtrace.preload_environment(
        vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", jumps, VRAMTRACE_OUTPUT=tmp_path / "job.vtr"
    )
    subprocess.run([programs[0], counts, "3000"], env=env, check=True, timeout=LIMIT_S)
    report = vramtrace.json("report", tmp_path / "job.vtr")
    assert report["recording"]["complete"]
    assert 0 < report["recording"]["duration_ns"] < LIMIT_S * 10**9
    times = [event["time_ns"] for event in vramtrace.events(tmp_path / "job.vtr")]
    assert times == sorted(times) and 0 <= times[0] and times[-1] <= report["recording"]["duration_ns"]

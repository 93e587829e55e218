# SPDX-License-Identifier: MIT
"""The recorder as a guest: preloaded by hand, beside other preloads, across forks, without descriptors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness import python, trace_files

PRELOADS = Path(__file__).parent / "preloads"


def check_ledger(report, ledger):
    tensor = report["devices"][0]["tensor"]
    assert tensor["allocs"] == ledger["allocation.all.allocated"]
    assert tensor["frees"] == ledger["allocation.all.freed"]
    assert tensor["peak_bytes"] == ledger["allocated_bytes.all.peak"]
    assert tensor["live_at_end_bytes"] == ledger["allocated_bytes.all.current"]
    assert report["devices"][0]["reserved"]["peak_bytes"] == ledger["reserved_bytes.all.peak"]


def run_preloaded(vramtrace, program, recording, libraries, **more):
    env = vramtrace.preload_environment(*libraries, VRAMTRACE_OUTPUT=recording, **more)
    done = subprocess.run(list(map(str, program)), env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_without_run(vramtrace, tmp_path):
    libraries = [vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so"]
    ledger = run_preloaded(vramtrace, python("threads.py"), tmp_path / "job.vtr", libraries)
    report = vramtrace.json("report", tmp_path / "job.vtr")
    check_ledger(report, ledger)
    assert report["recording"]["end"] == "exit"
    assert report["recording"]["simulated"]


def test_output_name_without_run(vramtrace, tmp_path):
    """%p and %h are expanded; the directory is readable by its owner alone."""
    libraries = [vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so"]
    run_preloaded(vramtrace, python("fork_child.py"), tmp_path / "a-%p.vtr", libraries)
    (recording,) = tmp_path.glob("a-*.vtr")
    pid = recording.stem.removeprefix("a-")
    assert pid.isdigit()
    assert recording.stat().st_mode & 0o777 == 0o700
    assert trace_files(recording)[0].name.split(".")[-3] == pid


@pytest.mark.parametrize("side", ["before", "after"])
def test_third_preload(vramtrace, compile_c, untraced, tmp_path, side):
    """Another preload on either side still gets its calls, and torch's statistics stay what they were."""
    counting = compile_c(PRELOADS / "counting.c", "-shared", "-fPIC", "-ldl")
    own = [vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so"]
    # A library behind the simulated runtime, which is where calls end, would never be reached.
    libraries = [counting, *own] if side == "before" else [own[0], counting, own[1]]
    ledger = run_preloaded(
        vramtrace, python("threads.py"), tmp_path / "job.vtr", libraries, COUNTING_OUTPUT=tmp_path / "count"
    )
    report = vramtrace.json("report", tmp_path / "job.vtr")
    assert ledger == untraced("threads.py").ledger
    check_ledger(report, ledger)
    assert int((tmp_path / "count").read_text()) == report["devices"][0]["driver"]["allocs"]


def test_existing_preload_is_kept(vramtrace, compile_c, record, tmp_path):
    counting = compile_c(PRELOADS / "counting.c", "-shared", "-fPIC", "-ldl")
    done = record("no_cuda.py", env={"LD_PRELOAD": str(counting), "COUNTING_OUTPUT": str(tmp_path / "count")})
    assert (done.status, done.stderr) == (0, "")
    assert (tmp_path / "count").exists()


def test_fork_child_stays_out_of_the_parents_trace(vramtrace, record):
    done = record("fork_child.py")
    assert done.status == 0
    assert done.ledger["child_status"] == 7
    report = vramtrace.json("report", done.path)
    check_ledger(report, done.ledger)
    assert report["recording"]["complete"]
    # The child's _exit(7) is not the parent's.
    assert [(process["end"], process["exit_status"]) for process in report["process_list"]] == [("exit", 0)]


def test_fork_children_with_cuda_of_their_own(vramtrace, record):
    """The parent never touches CUDA and has no trace; each worker has its own, with its own figures."""
    done = record("fork_workers.py")
    assert done.status == 0
    workers = {worker["pid"]: worker for worker in map(json.loads, done.stdout.splitlines())}
    report = vramtrace.json("report", done.path)
    assert {process["pid"] for process in report["process_list"]} == set(workers)
    assert len(trace_files(done.path)) == 2
    for device in report["devices"]:
        worker = workers[device["pid"]]
        assert device["tensor"]["live_at_end_bytes"] == worker["bytes"]
        assert device["tensor"]["allocs"] == worker["blocks"]


def test_data_loader_workers(vramtrace, record):
    done = record("data_loader.py")
    assert done.status == 0
    report = vramtrace.json("report", done.path)
    check_ledger(report, done.ledger)
    assert len(report["process_list"]) == 1
    assert report["process_list"][0]["pinned"]["peak_bytes"] > 0


def test_closed_descriptors(vramtrace, record, tmp_path):
    """A program that closes all descriptors goes on being recorded, and gets nothing into its own files."""
    done = record("close_descriptors.py", tmp_path)
    assert done.status == 0
    assert [path.read_bytes() for path in sorted(tmp_path.glob("own-*"))] == [b"own\n"] * 32
    report = vramtrace.json("report", done.path)
    check_ledger(report, done.ledger)
    assert report["recording"]["complete"]


@pytest.mark.parametrize("place, kind", [("", "beside"), ("recording", "temporary"), ("/", "shared")])
def test_where_the_rings_are(vramtrace, compile_c, tmp_path, place, kind):
    """A file of them needs space that is promised: where it cannot be had beside the trace, the next best place is taken."""
    library = compile_c(PRELOADS / "no_fallocate.c", "-shared", "-fPIC")
    libraries = [vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", library]
    (tmp_path / "recording").mkdir()
    (tmp_path / "node").mkdir()
    below = {"VRAMTRACE_RINGS": "folder", "TMPDIR": tmp_path / "node", "NO_FALLOCATE": tmp_path / place if place else "none"}
    ledger = run_preloaded(vramtrace, python("threads.py"), tmp_path / "recording" / "job.vtr", libraries, **below)
    report = vramtrace.json("report", tmp_path / "recording" / "job.vtr")
    check_ledger(report, ledger)
    (process,) = vramtrace.json("info", tmp_path / "recording" / "job.vtr")["process_list"]
    assert process["storage"] == kind
    assert list((tmp_path / "node").iterdir()) == []


SIGNALS = """
import ctypes, pathlib
cuda, block = ctypes.CDLL(None), ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(1 << 20)) == 0
lines = pathlib.Path("/proc/self/status").read_text().splitlines()
signals = {line[:6]: int(line.split()[1], 16) for line in lines if line[:6] in ("SigBlk", "SigIgn", "SigCgt")}
glibc = 3 << 31  # its own two signals, which it handles in a program that has threads
print({name: hex(mask & ~glibc) for name, mask in signals.items()})
"""


def test_signals_are_the_programs(vramtrace, tmp_path):
    """No handler is installed, and none of the program's threads has a signal blocked or ignored."""
    program = [sys.executable, "-c", SIGNALS]
    libraries = [vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so"]
    traced, untraced = (
        subprocess.run(
            program,
            env=vramtrace.preload_environment(*with_these, VRAMTRACE_OUTPUT=tmp_path / "job.vtr"),
            capture_output=True,
            text=True,
        )
        for with_these in (libraries, libraries[1:])
    )
    assert (traced.returncode, traced.stderr) == (0, "")
    assert traced.stdout == untraced.stdout != ""
    assert vramtrace.json("report", tmp_path / "job.vtr")["devices"][0]["driver"]["allocs"] == 1

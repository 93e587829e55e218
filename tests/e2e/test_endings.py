# SPDX-License-Identifier: MIT
"""However a program ends, its status is passed through, its trace is whole and says how it ended."""

import signal
import subprocess

import pytest

from harness import python

NORMAL = {"return": 0, "sys.exit": 3, "os._exit": 4, "raise": 1}
BY_SIGNAL = {"abort": signal.SIGABRT, "sigterm": signal.SIGTERM, "sigkill": signal.SIGKILL}
TEN_TENSORS = 10 * 4 * (1 << 20)


def check_ten_tensors(report):
    assert report["recording"]["complete"]
    assert report["recording"]["lost_events"] == 0
    assert len(report["process_list"]) == 1
    tensor = report["devices"][0]["tensor"]
    assert (tensor["allocs"], tensor["peak_bytes"]) == (10, TEN_TENSORS)


@pytest.mark.parametrize("ending", NORMAL)
def test_exit_status(vramtrace, record, ending):
    done = record("ending.py", ending)
    assert done.status == NORMAL[ending]
    assert done.stdout == "ten tensors\n"
    report = vramtrace.json("report", done.path)
    check_ten_tensors(report)
    assert report["recording"]["end"] == "exit"
    assert report["process_list"][0]["exit_status"] == NORMAL[ending]
    # What Python frees while it finalises counts in no figure; nothing else freed them.
    assert report["devices"][0]["tensor"]["live_at_end_bytes"] == TEN_TENSORS
    assert report["devices"][0]["tensor"]["frees"] == 0


@pytest.mark.parametrize("ending", BY_SIGNAL)
def test_signal(vramtrace, record, ending):
    done = record("ending.py", ending)
    assert done.status == -BY_SIGNAL[ending], "run ends by the signal that ended the program"
    assert done.stdout == "ten tensors\n"
    report = vramtrace.json("report", done.path)
    check_ten_tensors(report)
    # kill -9 is called the same whether `run` has seen it or the trace just stops.
    assert report["recording"]["end"] == ("killed" if ending == "sigkill" else "signal")
    assert report["devices"][0]["tensor"]["live_at_end_bytes"] == TEN_TENSORS


def test_signal_without_run(vramtrace, tmp_path):
    """Nobody catches SIGTERM here, and no handler is ever installed: the trace can only say that it stops."""
    env = vramtrace.preload_environment(
        vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", VRAMTRACE_OUTPUT=tmp_path / "job.vtr"
    )
    done = subprocess.run(python("ending.py", "sigterm"), env=env, stdout=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGTERM
    report = vramtrace.json("report", tmp_path / "job.vtr")
    check_ten_tensors(report)
    assert report["recording"]["end"] == "killed"


def test_running(vramtrace, tmp_path):
    """A recording can be read while its program still runs."""
    argv = vramtrace.run_argv(tmp_path / "job.vtr", python("ending.py", "wait"))
    process = subprocess.Popen([str(word) for word in argv], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ten tensors\n"
        report = vramtrace.json("report", tmp_path / "job.vtr")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
    assert report["recording"]["end"] == "running"
    assert report["devices"][0]["tensor"]["allocs"] == 10


def test_standard_streams_are_the_programs(vramtrace, record, untraced):
    """Recording adds nothing to stdout or stderr, and changes no traceback."""
    traced = record("ending.py", "raise")
    plain = untraced("ending.py", "raise")
    assert (traced.status, traced.stdout, traced.stderr) == (plain.status, plain.stdout, plain.stderr)
    assert "ValueError: as planned" in plain.stderr

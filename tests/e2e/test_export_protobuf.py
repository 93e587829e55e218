# SPDX-License-Identifier: MIT
"""`export` to pprof and Perfetto, read by parsers that are generated from these formats' own descriptions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import python

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def job(recorded):
    return recorded("gpt.py").path


@pytest.fixture(scope="module")
def two(vramtrace, tmp_path_factory):
    done = vramtrace.record(tmp_path_factory.mktemp("two") / "two.vtr", python("two_devices.py"), gpu="2xh100")
    assert done.status == 0, done.stderr
    return done.path


def exported(vramtrace, name, path, output, *options):
    done = vramtrace.call("export", "-f", name, "-o", output, *options, path)
    assert (done.returncode, done.stderr) == (0, "")
    return output


# ---- pprof -----------------------------------------------------------------------------------------------------------


def pprof(vramtrace, path, folder, *options):
    pytest.importorskip("zprofile")
    output = exported(vramtrace, "pprof", path, folder / "heap.pb.gz", *options)
    environment = os.environ | {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    done = subprocess.run([sys.executable, HERE / "pprof_read.py", output], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sums(profile, device=None):
    mine = [s["values"] for s in profile["samples"] if device is None or s["labels"]["device"] == device["device"]]
    return [sum(values) for values in zip(*mine)]


@pytest.mark.parametrize("at", ["peak", "end"])
def test_pprof(vramtrace, job, two, tmp_path, at):
    """Blocks and bytes of a moment as `peak` has them, and of all allocations as there were."""
    for path in (job, two):
        profile = pprof(vramtrace, path, tmp_path, "--at", at)
        assert profile["types"] == [
            ["alloc_objects", "count"], ["alloc_space", "bytes"], ["inuse_objects", "count"], ["inuse_space", "bytes"]
        ]
        assert profile["default"] == "inuse_space"
        report = vramtrace.json("report", path)
        peak = vramtrace.json("peak", *([] if at == "peak" else ["--at", at]), path)
        assert profile["duration_ns"] == report["recording"]["duration_ns"]
        for device, held in zip(report["devices"], peak["devices"]):
            allocs, _, blocks, held_bytes = sums(profile, device)
            assert (allocs, blocks, held_bytes) == (device["tensor"]["allocs"], held["count"], held["bytes"])


def test_pprof_frames(vramtrace, job, tmp_path):
    profile = pprof(vramtrace, job, tmp_path, "--at", "all")
    assert profile["default"] == "alloc_space"
    largest = max(profile["samples"], key=lambda sample: sample["values"][3])
    assert largest["frames"][0]["name"] == "cross_entropy" and largest["frames"][0]["file"].endswith("functional.py")
    assert largest["frames"][-1]["name"] == "<module>" and largest["frames"][-1]["line"] > 0
    csv = vramtrace.call("export", "-f", "ndjson", job).stdout
    sizes = [event["size"] for event in map(json.loads, csv.splitlines()) if event["kind"] == "tensor_alloc"]
    assert sums(profile)[:2] == [len(sizes), sum(sizes)]


def test_binary_and_terminals(vramtrace, job, tmp_path):
    """Refused on a terminal, with what to do; written to a pipe."""
    script = 'exec "$0" export -f pprof "$1"'
    shown = subprocess.run(
        ["script", "-qec", f"'{vramtrace.program}' export -f pprof '{job}'", "/dev/null"],
        capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert shown.returncode == 2 and "name a file with '-o FILE'" in shown.stdout
    piped = subprocess.run(["sh", "-c", script, vramtrace.program, job], capture_output=True)
    output = exported(vramtrace, "pprof", job, tmp_path / "heap.pb.gz")
    assert piped.stdout == output.read_bytes() and piped.stdout[:2] == b"\x1f\x8b"

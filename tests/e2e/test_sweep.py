# SPDX-License-Identifier: MIT
"""A real recording cut and changed, through the command line: tests/unit/test_sweep.c tries every byte, this a few."""

import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "v1" / "sweep.vtr"
WHOLE = GOLDEN.read_bytes()
NR_EVENTS = 101
CUTS = range(0, len(WHOLE), 997)
FLIPS = range(7, len(WHOLE), 701)


def flipped(at):
    return WHOLE[:at] + bytes([WHOLE[at] ^ 1 << at % 8]) + WHOLE[at + 1 :]


def test_intact(vramtrace):
    assert vramtrace.call("verify", GOLDEN).returncode == 0
    done = vramtrace.call("report", "--json", GOLDEN)
    assert done.returncode == 0 and not done.stderr
    report = json.loads(done.stdout)
    assert report["recording"]["complete"] and report["recording"]["events"] == NR_EVENTS


@pytest.mark.parametrize(
    "data, verdict",
    [pytest.param(WHOLE[:size], "cut off" if size else "damaged", id=f"cut-{size}") for size in CUTS]
    + [pytest.param(flipped(at), "damaged", id=f"flip-{at}") for at in FLIPS],
)
def test_said_or_refused(vramtrace, tmp_path, data, verdict):
    trace = tmp_path / "x.vtr"
    trace.write_bytes(data)
    verify = vramtrace.call("verify", "--json", trace)
    assert verify.returncode == {"cut off": 1, "damaged": 2}[verdict]
    assert json.loads(verify.stdout)["verdict"] == verdict
    assert "byte" in verify.stderr
    done = vramtrace.call("report", "--json", trace)
    assert done.returncode == 2
    assert done.stderr.startswith("vramtrace: ") and "byte" in done.stderr
    if not done.stdout:
        return
    report = json.loads(done.stdout)
    assert not report["recording"]["complete"]
    assert not any(device["exact"] for device in report["devices"])
    assert report["recording"]["events"] <= NR_EVENTS

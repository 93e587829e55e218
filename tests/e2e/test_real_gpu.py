# SPDX-License-Identifier: MIT
"""On a machine with a GPU: the same scripts on it and on the simulated one, peaks side by side.

The simulated device is the real one as `vramtrace calibrate` describes it. Where no library chooses a workspace, both
peaks must be equal; elsewhere allocated within 1 % and reserved within 3 %. `make test-gpu` prints the table.
"""

import os
import subprocess
from pathlib import Path

import pytest

from harness import LIMIT_S, TREE, Recorded, program_environment, python

BUILD = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build"))
HAS_GPU = (BUILD / "vramtrace").exists() and not subprocess.run([BUILD / "vramtrace", "gpu"], stdout=subprocess.DEVNULL).returncode
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_GPU, reason="no NVIDIA GPU here")]

ALLOCATED, RESERVED = "allocated_bytes.all.peak", "reserved_bytes.all.peak"

# A job, and whether a library's workspaces are part of its peaks.
SCRIPTS = [
    ("mlp.py", False),
    ("gpt.py", False),
    ("train_gpt.py --stats", False),
    ("threads.py", False),
    ("data_loader.py", False),
    ("llama7b.py", False),
    ("resnet50.py", True),
]


@pytest.fixture(scope="module")
def own_gpu(vramtrace, tmp_path_factory):
    """The file in which `calibrate` describes this machine's GPU."""
    path = tmp_path_factory.mktemp("gpu") / "this-machine.toml"
    done = vramtrace.call("calibrate", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def record_for_real(vramtrace, output, program):
    command = [vramtrace.program, "run", "-q", "-o", output, "--", *program]
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
        env=program_environment(),
    )
    return Recorded(output, done.returncode, done.stdout, done.stderr)


def check_recorded(vramtrace, done):
    """The recording says what PyTorch's own allocator counted."""
    report = vramtrace.json("report", done.path)
    device = max(report["devices"], key=lambda device: device["tensor"]["peak_bytes"])
    assert device["tensor"]["peak_bytes"] == done.ledger[ALLOCATED]
    assert device["reserved"]["peak_bytes"] == done.ledger[RESERVED]
    assert report["recording"]["lost_events"] == 0


@pytest.mark.parametrize("job, has_workspaces", SCRIPTS)
def test_simulated_peaks_equal_real_ones(vramtrace, own_gpu, tmp_path, capsys, job, has_workspaces):
    real = record_for_real(vramtrace, tmp_path / "real.vtr", python(*job.split()))
    assert real.status == 0, real.stderr
    simulated = vramtrace.record(tmp_path / "simulated.vtr", python(*job.split()), gpu=own_gpu)
    assert simulated.status == 0, simulated.stderr
    check_recorded(vramtrace, real)
    check_recorded(vramtrace, simulated)
    with capsys.disabled():
        print(f"\n{job}:", end="")
        for name in (ALLOCATED, RESERVED):
            difference = simulated.ledger[name] - real.ledger[name]
            print(
                f" {name.split('_')[0]} {simulated.ledger[name]:,} simulated, {real.ledger[name]:,} real"
                f" ({difference:+,} B, {100 * difference / real.ledger[name]:+.2f} %)",
                end="",
            )
        print()
    for name, tolerance in ((ALLOCATED, 0.01), (RESERVED, 0.03)):
        allowed = tolerance * real.ledger[name] if has_workspaces else 0
        assert abs(simulated.ledger[name] - real.ledger[name]) <= allowed

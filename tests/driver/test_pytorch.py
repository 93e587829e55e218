# SPDX-License-Identifier: MIT
"""PyTorch for CUDA 12 on NVIDIA's own driver library: what it says of the missing GPU, and how it ends.

The tests' own PyTorch, for CUDA 13, runs on them, too: these drivers are too old for it. The environments of the other
versions take 5 GB each: they are made one after the other, and those that this run has made are removed at the end,
unless VRAMTRACE_KEEP_ENVIRONMENTS=1 says to keep them.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from driver_runs import BUILD, CACHE, HERE, SETUP, TREE, same_outcome

pytestmark = pytest.mark.slow

REQUIREMENTS = {"2.6": TREE / "tests" / "matrix" / "torch-2.6.txt", "2.4": HERE / "torch-2.4.txt"}
ENDS = ("exit 7", "raise", "_exit", "abort", "terminate")


@pytest.fixture(scope="module", params=[*REQUIREMENTS, "this"])
def torch_python(request):
    """The interpreter of an environment with one version of PyTorch."""
    if not CACHE:
        pytest.skip("`make test-driver` runs it, and fetches what it needs")
    if request.param == "this":
        yield Path(sys.executable)
        return
    requirements = REQUIREMENTS[request.param]
    venv = Path(CACHE) / f"env-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]}"
    made_here = not (venv / ".complete").exists()
    done = subprocess.run([SETUP / "venv.sh", venv, requirements], capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(venv, ignore_errors=True)
        pytest.skip(f"no environment with PyTorch {request.param}: {(done.stderr.strip() or '?').splitlines()[-1]}")
    yield venv / "bin" / "python"
    if made_here and not os.environ.get("VRAMTRACE_KEEP_ENVIRONMENTS"):
        shutil.rmtree(venv)


@pytest.fixture
def one_driver(driver):
    """How a process ends is not the driver's: one of them is enough for every way."""
    if "driver-550" not in str(driver):
        pytest.skip("with driver 550")
    return driver


def check_the_same(runs, driver, torch_python, end):
    plain, recorded = runs.both(driver, torch_python, "-W", "always", HERE / "torch_ends.py", end)
    same_outcome(plain, recorded)
    assert plain.stdout == recorded.stdout
    assert "available False" in plain.stdout and "empty RuntimeError" in plain.stdout
    assert not runs.recording.exists()  # it has used no GPU memory


def test_the_same_answers(driver, torch_python, runs):
    check_the_same(runs, driver, torch_python, "return")


@pytest.mark.parametrize("end", ENDS)
def test_the_same_end(one_driver, torch_python, runs, end):
    check_the_same(runs, one_driver, torch_python, end)


def ends(folder):
    """Which libraries end, in their order, by the loader's own words; without the recorder."""
    lines = [line for path in sorted(folder.glob("loader.*")) for line in path.read_text().splitlines()]
    return [found[1] for line in lines if (found := re.search(r"calling fini: (\S*)", line)) and "interpose" not in line]


def test_libraries_end_in_the_same_order(one_driver, torch_python, runs):
    found = []
    for preload in ("", BUILD / "libinterpose.so"):
        for path in runs.folder.glob("loader.*"):
            path.unlink()
        env = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(runs.folder / "loader"), "LD_PRELOAD": str(preload)}
        done = runs.run(one_driver, torch_python, HERE / "torch_ends.py", "return", env=env)
        assert done.returncode == 0
        found.append(ends(runs.folder))
    assert found[0] == found[1] and any("libcuda.so.1" in name for name in found[0])

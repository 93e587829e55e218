# SPDX-License-Identifier: MIT
"""Jobs of PyTorch under another Python: every allocation has the frames that it has under this one."""

import os
import re
import sys
from pathlib import Path

import pytest

from harness import JOBS
from test_autograd import CASES
from test_frames import interpreter

# Of threads that take turns as they like nothing can be compared.
CASES_IN_ORDER = [case for case in CASES if case != "threads"]


@pytest.fixture(scope="module")
def other():
    """CPython 3.14, and the folder with its PyTorch that setup/torch314.sh has made."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vramtrace"
    made = sorted(path.parent for path in cache.glob("torch314-*/.complete"))
    if not made:
        pytest.skip(f"no PyTorch for CPython 3.14 in '{cache}': see setup/torch314.sh")
    return interpreter("3.14"), made[-1]


def allocations(vramtrace, output, stacks, program, packages):
    """The program's tensor allocations: size, shape, phase, and its own and PyTorch's frames, wherever PyTorch lies."""
    done = vramtrace.record(output, program, options=["--stacks", stacks], env={"PYTHONPATH": str(packages)})
    assert (done.status, done.stderr) == (0, "")
    assert vramtrace.json("report", output)["recording"]["complete"]
    told = []
    for event in vramtrace.events(output):
        if event["kind"] == "tensor_alloc":
            frames = [(re.sub(r"^.*/(?=torch/)", "", frame["file"] or ""), frame["line"], frame["function"],
                       "from_forward" in frame) for frame in event["python"]]
            own = [frame for frame in frames if frame[0].startswith("torch/") or frame[0] in ("", str(program[1]))]
            told.append((event["size"], event["shape"], event["phase"], own))
    return told


@pytest.mark.slow
@pytest.mark.parametrize("stacks, job", [("full", ["gpt.py", "--steps", "2"]),
                                         ("python", ["autograd_cases.py", *CASES_IN_ORDER])])
def test_frames_are_those_of_this_python(vramtrace, tmp_path, other, stacks, job):
    job = [JOBS / job[0], *job[1:]]
    here = allocations(vramtrace, tmp_path / "here.vtr", stacks, [sys.executable, *job], "")
    there = allocations(vramtrace, tmp_path / "there.vtr", stacks, [other[0], *job], other[1])
    assert here == there
    assert any(phase == "backward" for _, _, phase, _ in here)

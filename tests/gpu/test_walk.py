# SPDX-License-Identifier: MIT
"""The walk through what only a GPU can show, taken on the simulated one: that it walks, stops for nothing, and tells."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
WALK = TREE / "tests" / "gpu" / "walk.py"
LIMIT_S = 1800

# Steps of small programs; the others train with PyTorch.
QUICK = ("door", "nvml", "contexts", "latency")
SLOW = ("cupti", "owners", "endings", "capture", "segments", "pools", "ipc", "faults")


def walk(*arguments, **options):
    return subprocess.run([sys.executable, WALK, "--build", BUILD, *map(str, arguments)], capture_output=True, text=True,
                          timeout=LIMIT_S, **options)


def taken(folder, *arguments, status=0):
    done = walk("--simulate", "h100", "--output", folder, *arguments)
    result = json.loads((folder / "walk.json").read_text())
    assert result["schema"] == "vramtrace/walk/1"
    assert done.returncode == status, done.stdout + done.stderr
    return done, result["checks"]


def listed():
    return [line.split(maxsplit=4) for line in walk("--list").stdout.splitlines()]


def test_all_limits_together_are_less_than_half_an_hour():
    assert sum(int(limit) for _, _, limit, *_ in listed()) < LIMIT_S


def test_the_page_lists_the_steps_in_their_order():
    page = (TREE / "docs" / "reliability.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page[page.index("## On a GPU of NVIDIA") :], re.M) == [row[1] for row in listed()]


@pytest.mark.parametrize("name", QUICK)
def test_a_step_of_small_programs(tmp_path, name):
    done, checks = taken(tmp_path, "--only", name)
    assert checks and not [check for check in checks if check["verdict"] == "DIFFERS"]
    assert re.search(rf"^step \d+ {name}: .*: expected .*, seen .*: (ok|told)$", done.stdout, re.M)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_step_with_pytorch(tmp_path, name):
    _, checks = taken(tmp_path, "--only", name)
    assert [check for check in checks if check["verdict"] == "ok"]


def test_what_needs_a_real_gpu_is_skipped_with_the_reason(tmp_path):
    _, checks = taken(tmp_path, "--only", "held,marked,ioctls,profilers,others")
    assert [(c["step"], c["verdict"], c["seen"]) for c in checks] == [
        (name, "skipped", "means nothing on a simulated GPU") for name in ("held", "marked", "ioctls", "profilers", "others")
    ]


def test_a_step_that_fails_or_hangs_stops_nothing(tmp_path):
    """A driver program that crashes, and one that never ends: both differ, and the next step is taken."""
    script = tmp_path / "broken.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(WALK.parent)!r}); import walk\n"
        "def hang(w): w.call((sys.executable, '-c', 'import time; time.sleep(1000)'))\n"
        "def crash(w): raise ValueError('on purpose')\n"
        "walk.STEPS[:] = [walk.Step('hang', 1, 'hangs', hang), walk.Step('crash', 5, 'crashes', crash),\n"
        "                 walk.Step('fine', 5, 'is fine', lambda w: w.check('sum', 4, 2 + 2))]\n"
        "sys.exit(walk.main())\n"
    )
    arguments = ("--simulate", "h100", "--build", BUILD, "--output", tmp_path / "out")
    done = subprocess.run([sys.executable, script, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    checks = json.loads((tmp_path / "out" / "walk.json").read_text())["checks"]
    assert done.returncode == 1, done.stderr
    assert [(c["step"], c["verdict"]) for c in checks] == [("hang", "DIFFERS"), ("crash", "DIFFERS"), ("fine", "ok")]


def test_without_a_gpu_it_says_so(tmp_path):
    if subprocess.run([BUILD / "vramtrace", "gpu"], capture_output=True).returncode == 0:
        pytest.skip("this machine has one")
    done = walk("--output", tmp_path)
    assert done.returncode == 2 and "no GPU of NVIDIA's answers here: " in done.stdout

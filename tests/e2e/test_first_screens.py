# SPDX-License-Identifier: MIT
"""
The first screens of three jobs, as they are printed: one that ran out of memory, one that leaks, a healthy one.

The transcripts in screens/ are made by these tests: UPDATE_SCREENS=1 writes them anew. What differs from run to run is
masked: the recording's path, times, numbers of events, versions.
"""

import functools
import os
import re
from pathlib import Path

import pytest

from harness import python

SCREENS = Path(__file__).parent / "screens"
MASKS = [
    (r"\b\d[\d.]* (ns|us|ms|s|min|h|d)( \d+ (s|min|h))?(?![\w/])", "TIME"),
    (r"torch \d[\w.+]*", "torch VERSION"),
    (r"[\d,]+ events", "N events"),
]


@pytest.fixture(scope="module")
def job(vramtrace, recorded, tmp_path_factory):
    """job(name): the recording of one of the three."""

    @functools.cache
    def record(name):
        if name == "leak":
            return recorded("leaks/planted.py", "losses", "40")
        if name == "healthy":
            return recorded("leaks/healthy.py", "evaluation", "40")
        path = tmp_path_factory.mktemp("oom") / "job.vtr"
        command = python("oom/causes.py", "attention_matrix")
        return vramtrace.record(path, command, options=("--simulate-capacity", "4GiB"))

    return record


@pytest.mark.parametrize(
    "name, command", [(n, c) for n in ("oom", "leak", "healthy") for c in ("report", "oom" if n == "oom" else "leaks")]
)
def test_first_screen(vramtrace, job, name, command):
    path = job(name).path
    done = vramtrace.call(command, path)
    assert (done.returncode, done.stderr) == (0, "")
    page = done.stdout.replace(str(path), "train.vtr")
    lines = page.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80, page
    for pattern, mask in MASKS:
        page = re.sub(pattern, mask, page)
    golden = SCREENS / f"{name}.{command}"
    if os.environ.get("UPDATE_SCREENS"):
        golden.write_text(page)
    assert page == golden.read_text()


@pytest.mark.parametrize("name", ["oom", "leak", "healthy"])
def test_report_has_what_it_must(vramtrace, job, name):
    """A sentence with figures; capacity, reserved, allocated, outside PyTorch; three holders with file:line; what to do."""
    page = vramtrace.call("report", job(name).path).stdout
    sentence = {"oom": "Out of memory: ", "leak": "Memory grows by ", "healthy": "It fitted: "}[name]
    assert re.search(rf"^{sentence}.*\d.*\.$", page, re.MULTILINE)
    for label in ("capacity", "reserved", "allocated", "outside PyTorch"):
        assert re.search(rf"^ *{label} +\d[\d.]* [KMG]iB", page, re.MULTILINE), label
    assert len(re.findall(r"^ *[\d.]+ [KMG]?i?B +[\d.]+% +[\d,]+  .*\w\.py:\d+ ", page, re.MULTILINE)) == 3, page
    assert 1 <= len(re.findall(r"^(?:next:| {5}) vramtrace ", page, re.MULTILINE)) <= 3

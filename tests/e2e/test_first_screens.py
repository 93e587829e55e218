# SPDX-License-Identifier: MIT
"""
The first screens of three jobs, as they are printed: one that ran out of memory, one that leaks, a healthy one.

The transcripts in screens/ are made by these tests (screens.py).
"""

import functools
import re
import sys

import pytest

from harness import python
from screens import as_golden


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
        # Whether a census is through when the program ends is a matter of time: names are tested elsewhere.
        off = {"VRAMTRACE_NAMES": "off"}
        return vramtrace.record(path, command, options=("--simulate-capacity", "4GiB"), env=off)

    return record


@pytest.mark.parametrize(
    "name, command", [(n, c) for n in ("oom", "leak", "healthy") for c in ("report", "oom" if n == "oom" else "leaks")]
)
def test_first_screen(vramtrace, job, name, command):
    path = job(name).path
    done = vramtrace.call(command, path)
    assert (done.returncode, done.stderr) == (0, "")
    as_golden(f"{name}.{command}", done.stdout.replace(str(path), "train.vtr"))


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


LONG = """
import torch


def a_function_that_keeps_every_result_that_it_computes_in_a_list_of_its_own(results, model):
    results.append(model(torch.randn(4096, 1024, device="cuda")) * 2)
    results[-1].sum().backward()


results, model = [], torch.nn.Linear(1024, 1024).cuda()
while True:
    a_function_that_keeps_every_result_that_it_computes_in_a_list_of_its_own(results, model)
"""


def test_long_names_are_cut_and_lines_are_not(vramtrace, tmp_path):
    """A page keeps its width whatever a file is called, and its places their lines."""
    script = tmp_path / "a_package_of_many_words" / "a_training_script_whose_name_is_longer_than_any_column.py"
    script.parent.mkdir()
    script.write_text(LONG)
    done = vramtrace.record(tmp_path / "j.vtr", [sys.executable, script], options=("--simulate-capacity", "1GiB"))
    assert done.status == 1 and "OutOfMemoryError" in done.stderr
    for command in ("report", "oom", "leaks", "frag"):
        page = vramtrace.call(command, "j.vtr", cwd=tmp_path).stdout
        lines = page.splitlines()
        assert len(lines) <= 24 and max(map(len, lines)) <= 80, page
        if command in ("report", "leaks"):
            assert re.search(r"^ *\d[\d.]* [GM]iB +[\d.]+% +\d+  a_training_script.*\.\.\.:6$", page, re.MULTILINE), page

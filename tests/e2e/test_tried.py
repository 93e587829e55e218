# SPDX-License-Identifier: MIT
"""
Programs that no rule was made on, by somebody who knew none of them (jobs/tried): what is said, against what is true.

truth.json has why memory ran out of each, as its author knows it, and under "right" what was told right when it was last
tried: the verdict, the line, who keeps it. What was right must stay right, and what has become right is to be written
down: no rule is to be made on these. docs/diagnosis.md gives the rates.
"""

import json
import re
from pathlib import Path

import pytest
from harness import JOBS, TREE, WITH_NAMES, python

TRIED = JOBS / "tried"
TRUTH = json.loads((TRIED / "truth.json").read_text())
FAILING = [name for name, truth in TRUTH.items() if truth["verdicts"]]
HEALTHY = [name for name in TRUTH if name not in FAILING]
PARTS = {"verdict": FAILING, "line": FAILING, "keeper": [name for name in FAILING if TRUTH[name]["keeper"]]}


def lines_of(name):
    """The numbers of the lines that are the right ones."""
    texts = TRUTH[name]["line"]
    texts = [texts] if isinstance(texts, str) else texts
    lines = (TRIED / f"{name}.py").read_text().splitlines()
    found = [[number for number, line in enumerate(lines, 1) if text in line] for text in texts]
    assert all(len(numbers) == 1 for numbers in found), f"{name}: {texts}"
    return {number for (number,) in found}


def is_at(name, frame):
    return bool(frame) and Path(frame["file"] or "").name == f"{name}.py" and frame["line"] in lines_of(name)


def last_of(keeper):
    """`self.failed` is `worker.failed` to its caller."""
    return keeper.split("[")[0].split(".")[-1]


def told_right(name, finding):
    """Which parts of the truth a finding has."""
    truth = TRUTH[name]
    names = [finding.get("name") or "", *(keeper["name"] for keeper in finding.get("keepers") or [])]
    right = {
        "verdict": finding["verdict"] in truth["verdicts"],
        "line": is_at(name, finding["site"]) or is_at(name, finding.get("caller")),
        "keeper": bool(truth["keeper"]) and any(re.search(rf"\b{last_of(truth['keeper'])}\b", one) for one in names),
    }
    return [part for part, is_right in right.items() if is_right]


@pytest.fixture
def recorded(vramtrace, tmp_path):
    def run(name):
        return vramtrace.record(tmp_path / "job.vtr", python(f"tried/{name}.py"), options=("--simulate-capacity", "4GiB"),
                                env=WITH_NAMES)  # fmt: skip

    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", FAILING)
def test_what_was_told_right_still_is(vramtrace, recorded, name):
    job = recorded(name)
    assert job.status == 1 and "OutOfMemoryError" in job.stderr, job.stderr[-2000:]
    (finding, *_) = vramtrace.json("oom", job.path)["findings"]
    print(vramtrace.call("oom", job.path).stdout)
    assert told_right(name, finding) == TRUTH[name]["right"]


@pytest.mark.slow
@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_said_of_a_healthy_program(vramtrace, recorded, name):
    job = recorded(name)
    assert job.status == 0, job.stderr[-2000:]
    found = {command: vramtrace.json(command, job.path)["findings"] for command in ("oom", "leaks", "frag")}
    assert {command for command, findings in found.items() if findings} == set(TRUTH[name]["right"]), found


def test_the_document_tells_the_rates():
    text = (TREE / "docs" / "diagnosis.md").read_text()
    for part, names in PARTS.items():
        nr = sum(part in TRUTH[name]["right"] for name in names)
        assert re.search(rf"^\| {part} .*\| {nr} of {len(names)} \|$", text, re.M), (part, nr, len(names))
    nr = sum(bool(TRUTH[name]["right"]) for name in HEALTHY)
    assert re.search(rf"^\| false alarms .*\| {nr} of {len(HEALTHY)} \|$", text, re.M), nr

# SPDX-License-Identifier: MIT
"""A verdict that rests on sizes that the simulated GPU takes as 0 says so, in its own sentence, wherever it is printed."""

import json
import re
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "convolutions.py"
ZEROS = r"cuDNN's workspaces are not counted \((\d+) unknown\)"


@pytest.fixture(scope="module")
def convolutions(vramtrace, tmp_path_factory):
    path = tmp_path_factory.mktemp("convolutions") / "job.vtr"
    done = vramtrace.call("run", "--simulate", "h100", "-o", path, "--", sys.executable, PROGRAM)
    assert done.returncode == 0, done.stderr
    return path, done.stderr


@pytest.fixture
def page(vramtrace, convolutions):
    def text(command, *arguments):
        return vramtrace.call(command, *arguments, convolutions[0]).stdout

    return text


def test_report(vramtrace, page, convolutions, reliability):
    found = re.search(r"^It fitted: at least [^\n]* of the GPU;\n" + ZEROS + r"\.$", page("report"), re.M)
    assert found
    recording = vramtrace.json("report", convolutions[0])["recording"]
    assert recording["lower_bound"] is True and recording["zero_answers"] == int(found[1]) > 0
    reliability(
        "sizes-taken-as-0",
        program="convolutions with `cudnn.benchmark` on the simulated GPU, whose workspaces are not known",
        ends="as without",
        lost="none",
        said='`It fitted: at least ...; cuDNN\'s workspaces are not counted (N unknown)`, in JSON `"lower_bound": true`',
    )


def test_other_pages(page, convolutions):
    """peak, the gate and the closing lines of run."""
    assert re.search(r"^at least [^\n]*at the peak, after [^\n]*;\n" + ZEROS + "$", page("peak"), re.M)
    assert re.search(r"^pass: [^\n]* keeps within 1 limit; " + ZEROS + "$", page("check", "--max-peak", "70GiB"), re.M)
    assert re.search(r"^fail: [^\n]* breaks 1 of 1 limit; " + ZEROS + "$", page("check", "--max-peak", "1MiB"), re.M)
    assert re.search(r"GPU 0 \(simulated\): peak at least [^\n]*; " + ZEROS + "$", convolutions[1], re.M)


@pytest.mark.parametrize("command", [["peak"], ["check", "--max-peak", "70GiB"], ["oom"]])
def test_json(vramtrace, convolutions, command):
    recording = json.loads(vramtrace.call(command[0], "--json", *command[1:], convolutions[0]).stdout)["recording"]
    assert recording["lower_bound"] is True and recording["zero_answers"] > 0


def test_oom(vramtrace, tmp_path):
    """What did not fit would have fitted even less."""
    command = ["run", "-q", "--simulate", "h100", "--simulate-capacity", "2GiB", "-o", tmp_path / "job.vtr", "--"]
    vramtrace.call(*command, sys.executable, PROGRAM, "64")
    assert re.search("^  " + ZEROS + r": a GPU may run out earlier\.$", vramtrace.call("oom", tmp_path / "job.vtr").stdout, re.M)
    assert re.search(r"^Out of memory: [^\n]*;\n" + ZEROS + r"\.$", vramtrace.call("report", tmp_path / "job.vtr").stdout, re.M)


def test_several_runs(vramtrace, tmp_path):
    command = ["run", "--repeat", "2", "--simulate", "h100", "-o", tmp_path / "job.vtr", "--"]
    said = vramtrace.call(*command, sys.executable, PROGRAM).stderr
    assert re.search(r"GPU 0: peak at least [^\n]* runs[^\n]*; " + ZEROS + "$", said, re.M), said


def test_largest_batch(vramtrace, tmp_path):
    command = ["max-fit", "--simulate", "h100", "--min", "1", "--max", "2", "--"]
    program = [sys.executable, PROGRAM, "{}"]
    done = vramtrace.call(*command, *program, cwd=tmp_path)
    assert re.search(r"\(at least; " + ZEROS + r"\)", done.stdout), done.stdout + done.stderr
    best = json.loads(vramtrace.call("max-fit", "--json", *command[1:], *program, cwd=tmp_path).stdout)["gpus"][0]["at_largest"]
    assert best["lower_bound"] is True and best["zero_answers"] > 0


def test_without_such_sizes(vramtrace, recorded):
    """A job that asks for none says nothing of it."""
    job = recorded("mlp.py")
    assert "are not in it" not in vramtrace.call("report", job.path).stdout
    recording = vramtrace.json("report", job.path)["recording"]
    assert recording["lower_bound"] is False and recording["zero_answers"] == 0

# SPDX-License-Identifier: MIT
"""SKILL.md: its commands, taken out of the document and run in its order, do what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness import LIMIT_S, TREE, WITH_NAMES, program_environment

SKILL = TREE / "python" / "vramtrace" / "SKILL.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", SKILL.read_text(), re.M | re.S)


def commands():
    """Each command line with the exit status that its comment tells, else 0."""
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [(re.sub(r" +# exits with \d+$", "", line), int((re.findall(r"# exits with (\d+)$", line) or [0])[0])) for line in lines]


@pytest.fixture(scope="module")
def followed(vramtrace, tmp_path_factory):
    """All commands, run one after the other in a folder that has only the document's program: (status, output) of each."""
    folder = tmp_path_factory.mktemp("skill")
    (program,) = blocks("python")
    (folder / "train.py").write_text(program)
    path = os.pathsep.join(map(str, (vramtrace.program.parent, Path(sys.executable).parent, os.environ["PATH"])))
    environment = program_environment(WITH_NAMES | {"PATH": path})
    results = {}
    for line, _ in commands():
        done = subprocess.run(
            ["sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S,
            stdin=subprocess.DEVNULL,
        )
        results[line] = done
    return results


@pytest.mark.parametrize("line, status", commands(), ids=lambda value: str(value)[:60])
def test_command_ends_as_it_says(followed, line, status):
    done = followed[line]
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr or status == 1


def output(followed, start):
    (found,) = [done for line, done in followed.items() if line.startswith(start)]
    return found.stdout + found.stderr


def test_the_advice_is_what_is_edited(followed):
    assert "OutOfMemoryError" in output(followed, "vramtrace run --simulate h100 --simulate-capacity 4GiB -o before.vtr")
    assert re.search(r"^checkpoint blocks 0-7 at train\.py:\d+ \(saves", output(followed, "vramtrace advise"), re.M)
    assert re.search(r"^Out of memory on GPU 0", output(followed, "vramtrace oom before.vtr"))


def test_it_is_a_skill():
    """Front matter of two short lines, which is what agents' programs read first."""
    lines = SKILL.read_text().splitlines()
    assert (lines[0], lines[1], lines[3]) == ("---", "name: vramtrace", "---")
    assert lines[2].startswith("description: ") and len(lines[2]) < 1024
    assert len(lines) <= 150


def test_every_command_that_it_names_exists(vramtrace):
    known = set(re.findall(r"^  ([a-z-]+) +", vramtrace.call("help").stdout, re.M)) | {"help"}
    assert set(re.findall(r"vramtrace ([a-z][a-z-]*)", "\n".join(line for line, _ in commands()))) <= known

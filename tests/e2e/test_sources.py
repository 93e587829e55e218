# SPDX-License-Identifier: MIT
"""
A source file is read for loops and assignments exactly where it is still what ran, whatever its times say. Names of modules
do not hang on it.
"""

import json
import os

import pytest

from harness import WITH_NAMES, python

MODEL = """
import torch
class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.left = torch.nn.Linear(256, 256)
        self.right = torch.nn.Linear(256, 256)
    def forward(self, x):
        x = self.left(x)
        return self.right(x)
"""

# The module is written when recording has begun; of the same text as a notebook's cell, and as a file that is not there.
JOB = f"""
import pathlib, sys, torch
MODEL = {MODEL!r}
here = pathlib.Path(__file__).parent
held = torch.empty(1 << 20, device="cuda")
(here / "made.py").write_text(MODEL)
sys.path.insert(0, str(here))
import made
models = [made.Pair().cuda()]
for file in sys.argv[1:]:
    space = {{}}
    exec(compile(MODEL, file, "exec"), space)
    models.append(space["Pair"]().cuda())
for model in models:
    model(torch.randn(512, 256, device="cuda")).sum().backward()
"""


@pytest.fixture(scope="module")
def ran(vramtrace, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    (folder / "job.py").write_text(JOB)
    done = vramtrace.record(folder / "job.vtr", python(folder / "job.py", "<cell 1>", folder / "absent.py"), env=WITH_NAMES)
    assert done.status == 0, done.stderr
    return folder


@pytest.fixture
def seen(vramtrace, ran):
    """seen(): how often a note says that a file was changed."""

    def see():
        done = vramtrace.call("peak", "--by", "module", "--depth", "2", "--json", ran / "job.vtr")
        (device,) = json.loads(done.stdout)["devices"]
        names = {row["module"]: row["named_by"] for row in device["modules"] if row["module"]}
        members = {f"models[{i}].{side}" for i in range(3) for side in ("left", "right")}
        assert members <= {name for name in names if names[name] == "census"}, names
        return done.stderr.count("changed after the recording")

    yield see
    (ran / "made.py").write_text(MODEL)
    (ran / "absent.py").unlink(missing_ok=True)


def test_generated_source_is_read(seen):
    """It is younger than the recording, and what ran all the same."""
    assert seen() == 0


def test_fresh_checkout_is_read(seen, ran):
    for file in (ran / "job.py", ran / "made.py"):
        file.write_text(file.read_text())
        os.utime(file, (4e9, 4e9))
    assert seen() == 0


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# one line more\n" + MODEL, id="above"),
        pytest.param(MODEL.replace("self.left(x)", "self.gone(x)"), id="inside"),
        pytest.param("pass\n" * 20, id="replaced"),
        pytest.param("", id="emptied"),
    ],
)
@pytest.mark.parametrize("time", [1e9, 4e9], ids=["old", "new"])
def test_edited_source_is_not_read(seen, ran, text, time):
    """Times do not excuse it: a file of an older commit, or copied with its times, may be older than the recording."""
    (ran / "made.py").write_text(text)
    os.utime(ran / "made.py", (time, time))
    assert seen() == 1


def test_source_that_is_gone_is_not_read(seen, ran):
    (ran / "made.py").unlink()
    assert seen() == 0
    (ran / "made.py").mkdir()
    assert seen() == 0
    (ran / "made.py").rmdir()


def test_source_that_came_later_is_not_read(seen, ran):
    """Nobody knows whether what lies there now is what ran."""
    (ran / "absent.py").write_text(MODEL)
    assert seen() == 1


# SPDX-License-Identifier: MIT
"""Python stacks, frame by frame and line by line, under every interpreter that is installed here."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from harness import JOBS

SUPPORTED = [f"3.{minor}" for minor in range(8, 15)]


def interpreter(version):
    """An installed CPython of that version: this environment's, pyenv's or the system's."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    found = pyenv[-1] if pyenv else shutil.which(f"python{version}")
    if not found:
        pytest.skip(f"no Python {version} is installed here")
    return Path(found)


@pytest.mark.parametrize("version", SUPPORTED)
def test_frames(vramtrace, tmp_path, version):
    done = vramtrace.record(tmp_path / "job.vtr", [interpreter(version), JOBS / "frames.py"])
    assert (done.status, done.stderr) == (0, "")
    expected = {line["size"]: line["frames"] for line in map(json.loads, done.stdout.splitlines())}
    events = [event for event in vramtrace.events(done.path) if event["kind"] == "driver_alloc" and not event["modelled"]]
    assert [event["size"] for event in events] == list(expected)
    for event in events:
        frames = event["python"]
        assert [(frame["file"], frame["line"]) for frame in frames] == [
            (file, line) for file, line, _ in expected[event["size"]]
        ]
        for frame, (_, _, names) in zip(frames, expected[event["size"]]):
            assert frame["function"] in names

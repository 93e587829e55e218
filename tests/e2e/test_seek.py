# SPDX-License-Identifier: MIT
"""A stretch of time of a recording is what a dump of all of it has there, whatever state the index is in."""

import json
import random
from pathlib import Path

import pytest

from harness import python

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "v1"

STEPS = 1500  # some 250 KiB: a few checkpoints, and nothing is dropped
NR_TIMES = 12
SEED = 20240722
INDEX = 5


def dump(vramtrace, path, *options):
    done = vramtrace.call("dump", "--json", *options, path)
    return done.returncode, done.stdout.splitlines(), done.stderr


class Whole:
    """All events of a trace, and what is to be printed of a stretch of it."""

    def __init__(self, vramtrace, path):
        status, self.lines, _ = dump(vramtrace, path)
        assert status == 0
        self.times = [json.loads(line)["time_ns"] for line in self.lines]

    def between(self, begin, end):
        """From the first event that is not before `begin` up to the first that is after `end`."""
        first = next(place for place, time in enumerate(self.times) if time >= begin)
        last = next((place for place, time in enumerate(self.times) if time > end), len(self.times))
        return self.lines[first:last]

    def stretches(self):
        chance = random.Random(SEED)
        for number in range(NR_TIMES):
            begin = chance.randint(1, self.times[-1])
            yield begin, begin + chance.randint(0, self.times[-1] // 20)


@pytest.fixture(scope="module")
def trace(vramtrace, tmp_path_factory):
    """A job that is recorded with a checkpoint as often as can be."""
    output = tmp_path_factory.mktemp("seek") / "job.vtr"
    vramtrace.record(output, python("long.py", "--steps", STEPS), options=["--keep-steps", "400"])
    (path,) = output.glob("*.vtr")
    return path


@pytest.fixture(scope="module")
def whole(vramtrace, trace):
    return Whole(vramtrace, trace)


def check(vramtrace, whole, path, status=0):
    """Status: where what is wrong with the file may be said, too."""
    for begin, end in whole.stretches():
        ended, lines, _ = dump(vramtrace, path, "--from", f"{begin}ns", "--to", f"{end}ns")
        assert ended in (0, status)
        assert lines == whole.between(begin, end)


def frames_of_index(data):
    """Offsets of the frames of type INDEX: their magic, and the type that follows it."""
    at, found = -1, []
    while (at := data.find(b"\xb6\x56\x46\xe9" + bytes([INDEX]), at + 1)) >= 0:
        found.append(at)
    return found


def test_stretch_is_that_of_the_whole(vramtrace, trace, whole):
    said = json.loads(vramtrace.call("verify", "--json", trace).stdout)["traces"][0]
    assert said["checkpoints"] > 2 and said["index"] and said["dropped_events"] == 0
    check(vramtrace, whole, trace)


def test_without_index(vramtrace, trace, whole, tmp_path):
    """Cut off with all that follows it: the trace of a process that was killed, whose ring file is gone."""
    data = trace.read_bytes()
    cut = tmp_path / trace.name
    cut.write_bytes(data[: frames_of_index(data)[0]])
    check(vramtrace, whole, cut)


def test_with_a_damaged_index(vramtrace, trace, whole, tmp_path):
    data = bytearray(trace.read_bytes())
    for at in frames_of_index(data):
        data[at + 45] ^= 4
    damaged = tmp_path / trace.name
    damaged.write_bytes(data)
    assert vramtrace.call("verify", damaged).returncode == 2
    check(vramtrace, whole, damaged, status=2)


def test_ends_are_optional(vramtrace, trace, whole):
    middle, last = whole.times[len(whole.times) // 2], whole.times[-1]
    assert dump(vramtrace, trace, "--from", f"{middle}ns")[1] == whole.between(middle, last)
    assert dump(vramtrace, trace, "--to", f"{middle}ns")[1] == whole.between(0, middle)
    status, lines, _ = dump(vramtrace, trace, "--from", f"{middle}ns", "--kind", "tensor_alloc", "--limit", "5")
    allocated = [line for line in whole.between(middle, last) if json.loads(line)["kind"] == "tensor_alloc"]
    assert status == 0 and lines == allocated[:5]


def test_time_after_the_end(vramtrace, trace, whole):
    status, lines, said = dump(vramtrace, trace, "--from", "1000min")
    last = whole.times[-1]
    assert status == 2 and not lines
    assert f"holds nothing of that time: it ends at {last // 10**9}.{last % 10**9:09}s" in said


def test_time_that_was_dropped(vramtrace):
    path = GOLDEN / "kept.vtr"
    everything = [(line, json.loads(line)) for line in dump(vramtrace, path)[1]]
    kept = [line for line, event in everything if not event.get("before")]
    assert len(kept) < len(everything)
    status, lines, said = dump(vramtrace, path, "--to", "1ns")
    assert status == 2 and "keeps nothing of that time: it begins at " in said
    assert dump(vramtrace, path, "--from", "1ns")[1] == kept
    for place in range(0, len(kept), 10):
        whole_ns = json.loads(kept[place])["time_ns"]
        first = next(i for i, line in enumerate(kept) if json.loads(line)["time_ns"] >= whole_ns)
        assert dump(vramtrace, path, "--from", f"{whole_ns}ns")[1] == kept[first:]

# SPDX-License-Identifier: MIT
"""The index of the golden traces that have one tells where things are, and reading on from there is reading all."""

import json

import pytest

import dual
import vtf
import vtf_index

INDEXED = sorted(dual.GOLDEN.glob("v*/indexed*.vtr"))

every_indexed = pytest.mark.parametrize("path", INDEXED, ids=lambda path: path.stem)


def test_there_are_some():
    assert len(INDEXED) == 2


@every_indexed
def test_index_lists_what_is_there(path):
    frames = vtf_index.frames_of(path)
    checkpoints, definitions = vtf_index.read_index(frames)
    assert checkpoints == vtf_index.checkpoints_of(frames) and len(checkpoints) >= 2
    last = checkpoints[-1][0]
    assert definitions == [frame.at for frame in frames if frame.type == vtf.DEFINITIONS and frame.at < last]
    said, _ = dual.verify(path)
    assert (said["checkpoints"], said["index"]) == (len(checkpoints), True)


@pytest.mark.parametrize("name", ["training", "kept"])
def test_others_have_none(name):
    path = dual.GOLDEN / "v1" / f"{name}.vtr"
    assert vtf_index.read_index(vtf_index.frames_of(path)) is None
    assert dual.verify(path)[0]["index"] is False


def comparable(event):
    return [getattr(event, name) for name in vtf.Event.__slots__ if name != "joined"]


@every_indexed
def test_reading_from_a_checkpoint_is_reading_all(path):
    whole, frames = vtf.read(path), vtf_index.frames_of(path)
    for offset, _, ordinal, time in vtf_index.read_index(frames)[0]:
        events, ledger = vtf_index.read_from(frames, offset)
        assert [comparable(event) for event in events] == [comparable(event) for event in whole.events[ordinal:]]
        assert ledger.snapshot() == whole.ledger.snapshot()
        assert ledger.known_totals() == whole.ledger.known_totals()
        times = [event.time << whole.header.time_shift for event in whole.events[:ordinal]]
        assert max(times) == time


@every_indexed
def test_dump_begins_at_any_time(path):
    """Each event's time, and one nanosecond more: all that dump prints from there on is what the second reader has."""
    whole = vtf.read(path)
    times = [whole.time_ns(event) for event in whole.events]
    for wanted in sorted({*times[1::7], *(time + 1 for time in times[2::11])} - {times[-1] + 1}):
        place = next(place for place, time in enumerate(times) if time >= wanted)
        lines = [json.loads(line) for line in dual.call("dump", "--json", "--from", f"{wanted}ns", path).stdout.splitlines()]
        for line, event in zip(lines, whole.events[place:], strict=True):
            assert line["ordinal"] == event.ordinal and line["time_ns"] == whole.time_ns(event)
            assert (line["kind"], line["address"], line["size"]) == (event.name, event.address, event.size)
            assert line.get("alloc_ordinal") == event.alloc

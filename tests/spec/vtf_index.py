# SPDX-License-Identifier: MIT
"""The index at the end of a trace, and reading on from a checkpoint (tracefmt/FORMAT.md, section 6)."""

import vtf
from vtf_ledger import Ledger

INDEX = 5
CHECKPOINTS, DEFINITIONS = 1, 2
LATEST_TIME = 28, 64


def frames_of(path):
    """All frames of a trace without damage."""
    data = path.read_bytes()
    at, frames = vtf.Header(data).length, []
    while at < len(data):
        frames.append(vtf.Frame(data, at))
        at = frames[-1].end
    return frames


def read_index(frames):
    """What END's index lists: [offset, sequence, ordinal, time] of checkpoints, offsets of DEFINITIONS. None: no index."""
    end = frames[-1]
    assert end.type == vtf.END
    length, lists = end.number(11), {CHECKPOINTS: [], DEFINITIONS: []}
    if not length:
        return None
    of_index = [frame for frame in frames if end.at - length <= frame.at < end.at]
    assert of_index[0].at == end.at - length and {frame.type for frame in of_index} == {INDEX}
    for frame in of_index:
        cursor = vtf.Cursor(frame.payload())
        what = cursor.varint()
        entry = [0] * (4 if what == CHECKPOINTS else 1)
        for _ in range(frame.records):
            entry = [value + cursor.varint() for value in entry]
            lists[what].append(entry)
        assert not cursor.left
    return lists[CHECKPOINTS], [offset for (offset,) in lists[DEFINITIONS]]


def checkpoints_of(frames):
    """The same as read_index() lists, by looking at every frame."""
    found, has_events, begin = [], False, None
    for frame in frames:
        has_events = has_events or frame.type == vtf.EVENTS
        if frame.type != vtf.CHECKPOINT or not has_events:
            continue
        begin = begin or frame
        if figures := vtf.columns_of(frame).get(vtf.FIGURES):
            listed = vtf.read_all(figures.data, lambda c: (c.varint(), c.varint(), c.varint()))
            (time,) = [value for figure, row, value in listed if (figure, row) == LATEST_TIME]
            found.append([begin.at, begin.sequence, begin.ordinal, time])
            begin = None
    return found


def read_from(frames, offset):
    """Events and ledger of one who begins with the checkpoint there."""
    ledger, events = Ledger(), []
    for frame in frames:
        if frame.at >= offset and frame.type in (vtf.EVENTS, vtf.CHECKPOINT):
            if frame.type == vtf.CHECKPOINT and events:
                continue
            for event in vtf.decode_events(frame):
                ledger.apply(event)
                if frame.type == vtf.EVENTS:
                    events.append(event)
            if frame.type == vtf.CHECKPOINT:
                ledger.set_totals(frame.totals)
    return events, ledger

# SPDX-License-Identifier: MIT
"""
Traces that no recorder wrote, read by both readers: damaged in every way that section 8 of FORMAT.md knows, with what
section 9 says is skipped, and with values out of their limits after a right checksum.
"""

import lzma
import struct

import pytest

import dual
import vtf
from remake import Apart, frame, seal_file, tagged, untagged, varint, with_checks
from vtf_ring import Ring

WHOLE = (dual.GOLDEN / "v1" / "training.vtr").read_bytes()
APART = Apart(WHOLE)
KEPT = Apart((dual.GOLDEN / "v1" / "kept-pools.vtr").read_bytes())
EVENTS, DEFINITIONS, LAST = APART.first(vtf.EVENTS), APART.first(vtf.DEFINITIONS), len(APART.frames) - 1
NUMBERS = range(len(APART.frames))
NR_RINGS = 4  # that the killed process used


def both(tmp_path, data):
    path = tmp_path / "made.vtr"
    path.write_bytes(data)
    return dual.assert_same(path)


# ---- section 8: damage -------------------------------------------------------------------------------------------


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_wrong_byte(tmp_path, number):
    part = APART.parts[number]
    for at in (0, 13, len(part) - 1):
        trace = both(tmp_path, APART.with_part(number, flipped(part, at)))
        assert trace.damage


@pytest.mark.parametrize("number", range(KEPT.first(vtf.EVENTS)))
def test_a_wrong_byte_before_what_was_kept(tmp_path, number):
    """That events were dropped on purpose is told by each of the first frames: they are not lost with one."""
    trace = both(tmp_path, KEPT.with_part(number, flipped(KEPT.parts[number], 13)))
    assert trace.damage and not trace.missing and trace.dropped == KEPT.frames[0].ordinal > 0


@pytest.mark.parametrize("number", NUMBERS)
def test_a_frame_missing_twice_or_swapped(tmp_path, number):
    parts = APART.parts
    both(tmp_path, APART.together(parts[:number] + parts[number + 1 :]))
    assert len(both(tmp_path, APART.with_part(number, parts[number] * 2)).events) == 143
    both(tmp_path, APART.together(parts[:number] + parts[number:][:2][::-1] + parts[number + 2 :]))


@pytest.mark.parametrize("number", NUMBERS)
def test_cut(tmp_path, number):
    at = APART.frames[number].at
    for more in (0, 3, 100):
        both(tmp_path, WHOLE[: at + more])


@pytest.mark.parametrize("garbage", [b"\0", vtf.FRAME_MAGIC, APART.parts[EVENTS][:-1], vtf.FRAME_MAGIC + b"\xff" * 60])
@pytest.mark.parametrize("number", [0, EVENTS, LAST])
def test_garbage_between_frames(tmp_path, number, garbage):
    trace = both(tmp_path, APART.with_part(number, garbage + APART.parts[number]))
    assert len(trace.events) == 143 and trace.damage == [(APART.frames[number].at, len(garbage))]


@pytest.mark.parametrize("garbage", [b"\0" * 50, b"\xb6\x56", APART.parts[EVENTS][:-1]])
def test_garbage_at_the_end(tmp_path, garbage):
    assert len(both(tmp_path, WHOLE + garbage).events) == 143


# ---- section 9: what is skipped ------------------------------------------------------------------------------------


def events_frame(**changes):
    return APART.with_part(EVENTS, frame(APART.frames[EVENTS], **changes))


COLUMNS = untagged(APART.frames[EVENTS].payload())
SKIPPED = {
    "frame type": APART.with_more(EVENTS, lambda like: frame(like, type=9, payload=b"abc", records=1)),
    "its compression": APART.with_more(
        EVENTS, lambda like: frame(like, type=9, payload=b"abc", records=1, compression=7)
    ),
    "field": events_frame(fields=APART.frames[EVENTS].fields | {99: b"abc"}),
    "column": events_frame(payload=tagged({77: b"\xff\xff"} | COLUMNS)),
    "columns in another order": events_frame(payload=tagged(dict(reversed(COLUMNS.items())))),
    "uncompressed": events_frame(),
    "after END": APART.with_part(LAST, frame(APART.frames[LAST], payload=APART.frames[LAST].payload() + b"\xff\xff")),
    "after the file header": seal_file(
        APART.header[:12] + struct.pack("<I", len(APART.header) + 6) + APART.header[16:] + b"\0\0more"
    )
    + b"".join(APART.parts),
    "definition type": APART.with_part(
        DEFINITIONS,
        frame(
            APART.frames[DEFINITIONS],
            payload=b"\x63\x05\x00\x02\x02ab" + APART.frames[DEFINITIONS].payload(),
            records=APART.frames[DEFINITIONS].records + 1,
        ),
    ),
    "chunk without a beginning": APART.with_part(
        DEFINITIONS,
        frame(
            APART.frames[DEFINITIONS],
            payload=b"\x0a\x7f\x01\x03\x02ab" + APART.frames[DEFINITIONS].payload(),
            records=APART.frames[DEFINITIONS].records + 1,
        ),
    ),
}


@pytest.mark.parametrize("what", SKIPPED)
def test_skipped(tmp_path, what):
    trace = both(tmp_path, SKIPPED[what])
    assert len(trace.events) == 143 and not trace.is_damaged and not trace.is_cut


def test_unknown_kind(tmp_path):
    """Events of a kind to come are decoded, count in ordinals, and are otherwise ignored."""
    columns = COLUMNS | {1: with_class(COLUMNS[1], 0, kind=200)}
    columns.pop(6, None)
    path = tmp_path / "made.vtr"
    path.write_bytes(events_frame(payload=tagged(columns)))
    trace = vtf.read(path)
    known = [event for event in trace.events if event.name]
    assert len(trace.events) == 143 > len(known)
    trace.events = known
    dual.assert_same_events(trace, path)


def with_class(column, index, kind):
    classes = vtf.read_all(column, vtf.Cursor.varint)
    classes[1 + 6 * index] = kind
    return b"".join(map(varint, classes))


# ---- values out of their limits ------------------------------------------------------------------------------------

NR_EVENTS = APART.frames[EVENTS].records
BAD = {
    "compression": events_frame(compression=2),
    "no classes": events_frame(payload=tagged({number: COLUMNS[number] for number in COLUMNS if number != 1})),
    "a column twice": events_frame(payload=tagged(COLUMNS) + tagged({2: COLUMNS[2]})),
    "class out of range": events_frame(payload=tagged(COLUMNS | {2: b"\x7f" * NR_EVENTS})),
    "short column": events_frame(payload=tagged(COLUMNS | {3: COLUMNS[3][:-1]})),
    "unending varint": events_frame(payload=tagged(COLUMNS | {3: b"\xff" * 11 + COLUMNS[3]})),
    "65 bits": events_frame(payload=tagged(COLUMNS | {3: b"\xff" * 9 + b"\x02" + COLUMNS[3]})),
    "shift": events_frame(payload=tagged(COLUMNS | {7: b"\x40" + COLUMNS[7][1:]})),
    "stack of 33 bits": events_frame(payload=tagged(COLUMNS | {4: varint(1 << 32) * NR_EVENTS})),
    "column beyond the payload": events_frame(payload=tagged(COLUMNS) + b"\x50\x05ab"),
    "limits of a frame": events_frame(records=70000),
}


@pytest.mark.parametrize("what", BAD)
def test_out_of_limits(tmp_path, what):
    trace = both(tmp_path, BAD[what])
    assert trace.damage


def test_more_records_than_events(tmp_path):
    """How much of such a frame counts is each reader's own affair; not what is after it."""
    path = tmp_path / "made.vtr"
    path.write_bytes(events_frame(records=NR_EVENTS + 1))
    after = APART.frames[EVENTS].ordinal + NR_EVENTS
    trace = vtf.read(path)
    assert trace.damage and dual.verify(path)[0]["damage"]
    trace.events = [event for event in trace.events if event.ordinal >= after]
    dual.assert_same_events(trace, path, lambda line: line["ordinal"] >= after)


# ---- the file header -----------------------------------------------------------------------------------------------


def test_refused(tmp_path):
    path = tmp_path / "made.vtr"
    refused = {
        "empty": b"",
        "not a trace": b"\x89VTX" + WHOLE[4:],
        "cut": WHOLE[:70],
        "damaged": flipped(WHOLE, 30),
        "version 2": seal_file(WHOLE[:8] + b"\x02" + WHOLE[9 : len(APART.header)]) + b"".join(APART.parts),
    }
    for why, data in refused.items():
        path.write_bytes(data)
        with pytest.raises(vtf.Refused, match=why):
            vtf.read(path)
        assert dual.call("dump", path).returncode == 2, why


def test_what_must_be_understood(tmp_path):
    """Both refuse, and name what to read it with: version and commit of the recorder, if the header has them."""
    path = tmp_path / "made.vtr"
    bit = APART.header[:31] + b"\x20" + APART.header[32:]
    names = b"\x063.14.1\x0c0123456789ab"
    told = bit[:12] + struct.pack("<I", len(bit) + len(names)) + bit[16:] + names
    for header, words in (bit, "the recording's own version"), (told, "3.14.1 (commit 0123456789ab)"):
        path.write_bytes(seal_file(header) + b"".join(APART.parts))
        with pytest.raises(vtf.Refused, match="must understand 0x20"):
            vtf.read(path)
        for command in "dump", "info", "report", "verify":
            said = dual.call(command, path)
            assert said.returncode == 2 and words in said.stderr and "0x20" in said.stderr, command


# ---- the ring file -------------------------------------------------------------------------------------------------

KILLED = (dual.GOLDEN / "v1" / "killed.vtr").read_bytes()
RING = lzma.decompress((dual.GOLDEN / "v1" / "killed.ring.xz").read_bytes())


def both_joined(tmp_path, ring, data=KILLED):
    (tmp_path / "made.ring").write_bytes(ring)
    return both(tmp_path, data)


def changed(ring, at, what):
    return ring[:at] + what + ring[at + len(what) :]


FROM = sum(vtf.read(dual.GOLDEN / "v1" / "killed.vtr").last.definitions)
CHECKED = with_checks(RING, FROM)


def test_checks(tmp_path):
    """The same ring file in version 2 says the same."""
    old, new = (both_joined(tmp_path, ring) for ring in (RING, CHECKED))
    assert len(new.events) == len(old.events) and new.joined == old.joined and not new.problems


def test_torn(tmp_path):
    """Whatever is changed, both readers have the same events, definitions and complaints."""
    page = place_of(0, 0) - 4096
    head = Ring(RING).head_of(0)
    newest = place_of(0, head - 1)
    definitions = 4096 + FROM % struct.unpack_from("<Q", RING, 32)[0]
    torn = {
        "newest record": changed(CHECKED, newest + 8, b"\xff"),
        "valid": changed(CHECKED, newest + 60, b"\0\0\0\0"),
        "page of records": changed(CHECKED, newest & ~4095, bytes(4096)),
        "head of 0": changed(CHECKED, page, bytes(8)),
        "head too high": changed(CHECKED, page, struct.pack("<Q", head + 7)),
        "head far too high": changed(CHECKED, page, struct.pack("<Q", 1 << 50)),
        "thread": changed(CHECKED, page + 128, b"\x77"),
        "number of rings": changed(CHECKED, 60, b"\1"),
        "status page": changed(CHECKED, 40, b"\1"),
        "a definition": changed(CHECKED, definitions + 34, b"\xff\xff"),
        "the length of a definition": changed(CHECKED, definitions, b"\xff\xff"),
        "head of definitions": changed(CHECKED, 112, bytes(8)),
        "head of definitions far too high": changed(CHECKED, 112, struct.pack("<Q", 1 << 50)),
    }
    events = len(both_joined(tmp_path, CHECKED).events)
    for what, ring in torn.items():
        trace = both_joined(tmp_path, ring)
        assert what in ("head of 0", "number of rings", "head of definitions") or trace.problems, what
        assert trace.problems or len(trace.events) == events, what


def place_of(number, position):
    """Where a record of a ring lies in the file."""
    first, stride, capacity, _ = struct.unpack_from("<QQII", RING, 40)
    return first + number * stride + 4096 + position % capacity * 64


def test_ring_beyond_the_end(tmp_path):
    whole = len(both_joined(tmp_path, RING).events)
    for number in range(NR_RINGS):
        trace = both_joined(tmp_path, RING[: place_of(number, 0)])
        assert len(trace.events) < whole and trace.problems


def test_record_that_is_not_whole(tmp_path):
    for number in range(NR_RINGS):
        at = place_of(number, Ring(RING).head_of(number) - 1)
        assert both_joined(tmp_path, changed(RING, at + 60, b"\0\0\0\0")).problems


def test_ring_of_another_process(tmp_path):
    for at in (0, 8, 12, 16):
        assert both_joined(tmp_path, flipped(RING, at)).joined == 0
        assert both_joined(tmp_path, flipped(CHECKED, at)).joined == 0


def test_ring_alone_holds_all_that_damage_took(tmp_path):
    """Frames that are damaged or cut off at the end come from the ring file again."""
    whole = both_joined(tmp_path, RING)
    apart = Apart(KILLED)
    for number in range(1, len(apart.frames)):
        trace = both_joined(tmp_path, RING, apart.together(apart.parts[:number]) + apart.parts[number][:40])
        assert len(trace.events) == len(whole.events)


def test_wrong_payload_before_the_ring(tmp_path):
    """It covers what it says all the same: nothing of it is taken from the ring file."""
    apart = Apart(KILLED)
    number = max(index for index, each in enumerate(apart.frames) if each.type == vtf.EVENTS)
    columns = untagged(apart.frames[number].payload())
    bad = frame(apart.frames[number], payload=tagged(columns | {7: b"\x40" + columns[7][1:]}))
    trace = both_joined(tmp_path, RING, apart.with_part(number, bad))
    assert trace.joined == both_joined(tmp_path, RING).joined


def test_orders_that_are_missing(tmp_path):
    """A hook that had not returned: its record is not there, and what comes after it is."""
    ring = Ring(RING)
    orders = sorted(order for number in range(NR_RINGS) for _, order, *_ in ring.records(number, 0, [])[0])
    gap = orders[len(orders) // 2]
    data = bytearray(RING)
    for number in range(NR_RINGS):
        for position in range(ring.head_of(number)):
            at = place_of(number, position) + 24
            (order,) = struct.unpack_from("<Q", data, at)
            struct.pack_into("<Q", data, at, order + (order > gap) * 5)
    assert both_joined(tmp_path, bytes(data)).joined


def test_overwritten_records(tmp_path):
    """Rings so small that they held the end of each thread only."""
    small = 16
    first, stride, _, number = struct.unpack_from("<QQII", RING, 40)
    made = bytearray(RING[:first])
    struct.pack_into("<QI", made, 48, 4096 + small * 64, small)
    struct.pack_into("<I", made, 60, number)
    for ring in range(number):
        page, head = first + ring * stride, Ring(RING).head_of(ring)
        made += RING[page : page + 4096]
        slots = [bytes(64)] * small
        for position in range(max(0, head - small), head):
            slots[position % small] = RING[(at := place_of(ring, position)) : at + 64]
        made += b"".join(slots)
    trace = both_joined(tmp_path, bytes(made))
    lost = [index for index, event in enumerate(trace.events) if event.name == "lost"]
    assert trace.lost > 20 and len(lost) == 3  # the fourth thread did little
    for index in lost:  # each is told where its thread goes on
        told, following = trace.events[index : index + 2]
        assert (told.time, told.thread) == (following.time, following.thread) and told.time
    for ring in range(NR_RINGS):
        at = first + ring * (4096 + small * 64) + 4096
        for slot in range(small):
            struct.pack_into("<I", made, at + slot * 64 + 60, 0)
    trace = both_joined(tmp_path, bytes(made))
    assert [event.name for event in trace.events if event.joined] == ["lost"] * NR_RINGS


@pytest.mark.parametrize("own_device", [True, False])
def test_the_same_time(tmp_path, own_device):
    """All at one moment: what goes first is laid down, within a domain and with a device for each thread."""
    data = bytearray(RING)
    (start,) = struct.unpack_from("<Q", KILLED, 32)
    for number in range(NR_RINGS):
        for position in range(Ring(RING).head_of(number)):
            at = place_of(number, position)
            struct.pack_into("<Q", data, at, start + 10**10)
            if own_device and data[at + 56] in (vtf.KIND["tensor_alloc"], vtf.KIND["tensor_free"]):
                data[at + 57] = number
    assert both_joined(tmp_path, bytes(data)).joined > 100


def test_end_that_only_the_status_page_knows(tmp_path):
    trace = both_joined(tmp_path, changed(RING, 64, struct.pack("<Ii", 2, 15)))
    assert trace.how_it_ended == "signal"

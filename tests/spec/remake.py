# SPDX-License-Identifier: MIT
"""Takes traces apart and puts them together again, with right checksums: what no recorder writes."""

import struct

import xxhash

import vtf
import vtf_ring


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def tagged(entries):
    """{tag: content} as fields and columns are written."""
    return b"".join(varint(tag) + varint(len(content)) + content for tag, content in entries.items())


def untagged(data):
    return dict(vtf.read_all(data, lambda cursor: (cursor.varint(), cursor.bytes())))


def seal(whole):
    """A frame's bytes with the checksum that belongs to them."""
    whole = bytearray(whole)
    struct.pack_into("<Q", whole, 24, xxhash.xxh64_intdigest(bytes(whole[:24] + whole[32:])))
    return bytes(whole)


def seal_file(header):
    header = bytearray(header)
    struct.pack_into("<Q", header, 16, xxhash.xxh64_intdigest(bytes(header[:16] + header[24:])))
    return bytes(header)


def frame(like, *, payload=None, fields=None, **header):
    """The bytes of a frame like `like` but for what is given; the payload is stored as it is."""
    payload = like.payload() if payload is None else payload
    fields = tagged(like.fields if fields is None else fields)
    values = {"type": like.type, "compression": 0, "sequence": like.sequence, "stored": len(payload)}
    values |= {"raw": len(payload), "records": like.records} | header
    head = struct.pack("<4sBBHIIIIQ", vtf.FRAME_MAGIC, values["type"], values["compression"], 32 + len(fields),
                       values["sequence"], values["stored"], values["raw"], values["records"], 0)  # fmt: skip
    return seal(head + fields + payload)


class Apart:
    """A trace's header and frames, as bytes and as the reader has them."""

    def __init__(self, data):
        header = vtf.Header(data)
        self.header, self.frames, at = data[: header.length], [], header.length
        while at < len(data):
            self.frames.append(vtf.Frame(data, at))
            at = self.frames[-1].end
        self.parts = [data[frame.at : frame.end] for frame in self.frames]

    def first(self, kind):
        return next(index for index, frame in enumerate(self.frames) if frame.type == kind)

    def together(self, parts=None):
        return self.header + b"".join(self.parts if parts is None else parts)

    def with_part(self, index, part):
        return self.together([*self.parts[:index], part, *self.parts[index + 1 :]])

    def with_more(self, index, make):
        """A frame more before `index`; those after it count on."""
        more = make(self.frames[index])
        later = [frame(each, sequence=each.sequence + 1) for each in self.frames[index:]]
        return self.together([*self.parts[:index], more, *later])


RECORD = struct.Struct("<QQQQQIIIHHBBHI")
CAPACITY = 1024


def record(r, position):
    """The bytes of a record at a position of its ring."""
    values = [r[name] for name in ("time", "address", "size", "order", "aux")] + [0] * 5
    made = RECORD.pack(*values, r["kind"], r["device"], r["flags"], 0)
    return made[:60] + struct.pack("<I", vtf_ring.record_check(made[:60], position))


def ring_file(like, rings):
    """A ring file for the process of `like`: rings of records, dictionaries in the order in which each was published."""
    stride = 4096 + CAPACITY * RECORD.size
    status = bytearray(like[:4096])
    struct.pack_into("<QQQQII", status, 24, 4096, 4096, 8192, stride, CAPACITY, len(rings))
    struct.pack_into("<QQ", status, 112, 0, 0)
    struct.pack_into("<I", status, 8, 2)
    struct.pack_into("<Q", status, 144, xxhash.xxh64_intdigest(bytes(status[vtf_ring.STATUS_BYTES])))
    made = bytes(status) + bytes(4096)
    for thread, records in enumerate(rings, 1):
        page = bytearray(4096)
        struct.pack_into("<Q", page, 0, len(records))
        struct.pack_into("<III", page, 128, thread, 0, vtf_ring.step(1, thread, 0) >> 32)
        slots = b"".join(record(r, place) for place, r in enumerate(records))
        made += page + slots.ljust(CAPACITY * RECORD.size, b"\0")
    return made


def with_checks(ring, start):
    """A ring file of version 1 in version 2; the definitions from position `start` on go on there."""
    old, made = vtf_ring.Ring(ring), bytearray(ring)
    struct.pack_into("<I", made, 8, 2)
    struct.pack_into("<Q", made, 144, xxhash.xxh64_intdigest(bytes(made[vtf_ring.STATUS_BYTES])))
    at = start
    for kind, number, offset, whole, payload in old.definitions_from(start, []):
        fixed = vtf_ring.ENTRY.pack(32 + (len(payload) + 7) // 8 * 8, len(payload), kind, number, offset, whole)
        entry = fixed + struct.pack("<Q", vtf_ring.entry_check(fixed, payload, at)) + payload
        for byte in entry + bytes(-len(entry) % 8):
            made[old.definition_offset + at % old.definition_bytes] = byte
            at += 1
    struct.pack_into("<Q", made, 112, at)
    for index in range(old.number):
        page = old.first + index * old.stride
        thread = old.thread_of(index, [])
        struct.pack_into("<I", made, page + 136, vtf_ring.step(1, thread, 0) >> 32)
        head = old.head_of(index)
        for position in range(max(0, head - old.capacity), head):
            slot = page + 4096 + position % old.capacity * 64
            check = vtf_ring.record_check(bytes(made[slot : slot + 60]), position)
            struct.pack_into("<I", made, slot + 60, check)
    return bytes(made)

# SPDX-License-Identifier: MIT
"""Takes traces apart and puts them together again, with right checksums: what no recorder writes."""

import struct

import xxhash

import vtf


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
        """A frame more before `index`; those behind it count on."""
        more = make(self.frames[index])
        later = [frame(each, sequence=each.sequence + 1) for each in self.frames[index:]]
        return self.together([*self.parts[:index], more, *later])


RECORD = struct.Struct("<QQQQQIIIHHBBHI")
CAPACITY = 1024


def ring_file(like, rings):
    """A ring file for the process of `like`: rings of records, dictionaries in the order in which each was published."""
    stride = 4096 + CAPACITY * RECORD.size
    status = bytearray(like[:4096])
    struct.pack_into("<QQQQII", status, 24, 4096, 4096, 8192, stride, CAPACITY, len(rings))
    struct.pack_into("<QQ", status, 112, 0, 0)
    made = bytes(status) + bytes(4096)
    for thread, records in enumerate(rings, 1):
        page = bytearray(4096)
        struct.pack_into("<Q", page, 0, len(records))
        struct.pack_into("<I", page, 128, thread)
        slots = b"".join(
            RECORD.pack(r["time"], r["address"], r["size"], r["order"], r["aux"], 0, 0, 0, 0, 0, r["kind"], r["device"],
                        r["flags"], place + 1)
            for place, r in enumerate(records)
        )  # fmt: skip
        made += page + slots.ljust(CAPACITY * RECORD.size, b"\0")
    return made

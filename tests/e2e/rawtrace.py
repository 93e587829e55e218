# SPDX-License-Identifier: MIT
"""The bytes of a trace as tracefmt/FORMAT.md lays them out: payloads of its frames, uncompressed, and all strings.

Written from that page, not from the reader's code; damage is not expected.
"""

import ctypes
import struct

EVENTS, DEFINITIONS, END = 1, 2, 3
# Fields of a definition in front of its end: v a varint, s a string.
FIELDS = {1: "vvvv", 2: "vvss", 3: "vvvss", 5: "vs", 6: "vsss", 7: "s", 8: "ss", 9: "vv", 10: "s"}
HOST_AT = 80


class Cursor:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                return value

    def bytes(self, count):
        self.at += count
        return bytes(self.data[self.at - count:self.at])

    def string(self):
        return self.bytes(self.varint())


def decompress(data, size):
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(size)
    got = zstd.ZSTD_decompress(out, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
    assert got == size
    return out.raw


def frames(trace):
    """(type, number of records, payload) of each frame."""
    data = trace.read_bytes()
    (at,) = struct.unpack_from("<I", data, 12)
    while at + 32 <= len(data):
        magic, kind, compression, header, _, stored, raw, records = struct.unpack_from("<4sBBHIIII", data, at)
        assert magic == b"\xb6VF\xe9"
        payload = data[at + header:at + header + stored]
        yield kind, records, decompress(payload, raw) if compression else payload
        at += header + stored


def definitions(trace):
    """(type, id, payload) of each definition in the frames."""
    whole = b""
    for kind, records, payload in frames(trace):
        cursor = Cursor(payload)
        for _ in range(records if kind == DEFINITIONS else 0):
            what, number, offset, size, length = (cursor.varint() for _ in range(5))
            whole = (whole if offset else b"") + cursor.bytes(length)
            if len(whole) == size:
                yield what, number, whole


def ring_definitions(ring):
    """The same of what a ring file holds beyond the tail of its definition ring."""
    data = ring.read_bytes()
    offset, size = struct.unpack_from("<QQ", data, 24)
    head, tail = struct.unpack_from("<QQ", data, 112)
    stream = bytes(data[offset + position % size] for position in range(tail, head))
    at, whole = 0, b""
    while at < len(stream):
        entry, length, what, number, begin, total = struct.unpack_from("<6I", stream, at)
        whole = (whole if begin else b"") + stream[at + 24:at + 24 + length]
        if len(whole) == total:
            yield what, number, whole
        at += entry


def strings_of(definition):
    cursor = Cursor(definition[2])
    for field in FIELDS.get(definition[0], ""):
        value = cursor.string() if field == "s" else cursor.varint()
        if field == "s" and value:
            yield value


def header_strings(trace):
    cursor = Cursor(trace.read_bytes(), HOST_AT)
    return {cursor.string() for _ in range(3)} - {b""}


def all_bytes(recording):
    """Every byte of a recording, its files' names included, nothing compressed."""
    out = b""
    for path in sorted(recording.rglob("*")) if recording.is_dir() else [recording]:
        out += path.name.encode() + b"\0"
        if path.suffix == ".vtr" and path.is_file():
            out += b"".join(payload for _, _, payload in frames(path))
        if path.is_file():
            out += path.read_bytes()
    return out

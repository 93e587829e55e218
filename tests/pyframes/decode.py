# SPDX-License-Identifier: MIT
"""Reads the definitions that the probe keeps: stacks as lists of (file, name, line), newest first.

Written from the format's words, not from the recorder's code: varints, strings and the three ways in which
CPython maps positions to lines.
"""
import ctypes

FRAME, CODE = 0, 1
NOT_CAPTURED, NO_PYTHON = 0, 1
PYTHON, NATIVE, CUT, ENTRY = 1, 2, 3, 5


class Payload:
    def __init__(self, data):
        self.data, self.at = data, 0

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                return value

    def zigzag(self):
        value = self.varint()
        return -((value + 1) >> 1) if value & 1 else value >> 1

    def string(self):
        length = self.varint()
        self.at += length
        return self.data[self.at - length:self.at].decode("utf-8")

    def rest(self):
        return self.data[self.at:]


def signed(byte):
    return byte - 256 if byte > 127 else byte


def lnotab_line(table, first, position):
    """3.8, 3.9: pairs of byte delta and line delta, both to be applied up to the position."""
    line, address = first, 0
    for i in range(0, len(table) - 1, 2):
        address += table[i]
        if address > 2 * position:
            break
        line += signed(table[i + 1])
    return line


def pep626_line(table, first, position):
    """3.10: pairs of line delta (-128: no line) and the length of the range it holds for."""
    line, end = first, 0
    for i in range(0, len(table) - 1, 2):
        delta = signed(table[i + 1])
        end += table[i]
        if delta != -128:
            line += delta
        if end > 2 * position:
            return None if delta == -128 else line
    return None


def pep657_line(table, first, position):
    """3.11 and later: entries of code units, whose first byte tells how the line delta is stored."""
    at, end, line = 0, 0, first

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = table[at]
            at += 1
            value |= (byte & 63) << shift
            shift += 6
            if not byte & 64:
                return value

    while at < len(table):
        head = table[at]
        at += 1
        code = head >> 3 & 15
        end += (head & 7) + 1
        if code in (13, 14):
            value = varint()
            line += -(value >> 1) if value & 1 else value >> 1
            if code == 14:
                for _ in range(3):
                    varint()
        elif code >= 10 and code != 15:
            line += code - 10
            at += 2
        elif code < 10:
            at += 1
        if end > position:
            return None if code == 15 else line
    return None


LINE = {0: lnotab_line, 1: pep626_line, 2: pep657_line}


class Trace:
    def __init__(self, library):
        self.library = library
        library.probe_definition.restype = ctypes.c_void_p
        self.codes = {}

    def payload(self, which, number):
        length = ctypes.c_uint32()
        address = self.library.probe_definition(which, number, ctypes.byref(length))
        assert address, "id %d of kind %d is not defined" % (number, which)
        return Payload(ctypes.string_at(address, length.value))

    def code(self, number):
        if number not in self.codes:
            p = self.payload(CODE, number)
            kind, first = p.varint(), p.varint()
            name, file = p.string(), p.string()
            self.codes[number] = (kind, first, name, file, p.rest())
        return self.codes[number]

    def nodes(self, number):
        """(kind, a, b) from the innermost frame to the root."""
        while number:
            p = self.payload(FRAME, number)
            number, kind, a, b = p.varint(), p.varint(), p.varint(), p.zigzag()
            yield kind, a, b

    def stack(self, number):
        """(file, name, line) per frame; ("cut", n) for n frames left out."""
        frames = []
        for kind, a, b in self.nodes(number):
            if kind == CUT:
                frames.append(("cut", a))
                continue
            assert kind in (PYTHON, ENTRY), kind
            table_kind, first, name, file, table = self.code(a)
            line = first if b < 0 else LINE[table_kind](table, first, b)
            frames.append((file, name, line))
        return frames

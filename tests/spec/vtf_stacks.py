# SPDX-License-Identifier: MIT
"""Stacks frame by frame (tracefmt/FORMAT.md, section 5), with CPython's three tables of line numbers."""

import bisect
from collections import namedtuple

import vtf

FIRST_STACK = 2
PYTHON, NATIVE, CUT, NODE, PYTHON_CALLED, NAMED = 1, 2, 3, 4, 5, 6
LNOTAB, PEP_626, PEP_657 = 0, 1, 2

PythonFrame = namedtuple("PythonFrame", "file line function node from_forward cut", defaults=(False, False, None))
NativeFrame = namedtuple("NativeFrame", "module offset cut named", defaults=(None, None))


def signed_byte(byte):
    return byte - 256 if byte > 127 else byte


def line_lnotab(table, line, at):
    """CPython to 3.9: pairs of differences of bytecode offset and line."""
    offset = 0
    for step, lines in zip(table[::2], table[1::2]):
        offset += step
        if offset > at:
            break
        line += signed_byte(lines)
    return line


def line_626(table, line, at):
    """CPython 3.10: ranges of bytecode offsets; a line difference of -128 is a range without a line."""
    start = 0
    for step, lines in zip(table[::2], table[1::2]):
        if lines != 0x80:
            line += signed_byte(lines)
        start += step
        if at < start:
            return 0 if lines == 0x80 else line
    return line


def varint_657(table, at):
    value = shift = 0
    while True:
        byte = table[at]
        at += 1
        value |= (byte & 0x3F) << shift
        shift += 6
        if not byte & 0x40:
            return value, at


def line_657(table, line, unit):
    """From CPython 3.11 on: entries of 1 to 8 code units, each beginning with a byte that has bit 7 set."""
    at = start = 0
    while at < len(table):
        code, units = table[at] >> 3 & 15, (table[at] & 7) + 1
        has_line = code != 15
        if code in (13, 14):
            value, _ = varint_657(table, at + 1)
            line += -(value >> 1) if value & 1 else value >> 1
        elif 10 <= code <= 12:
            line += code - 10
        start += units
        if unit < start:
            return line if has_line else 0
        at += 1
        while at < len(table) and not table[at] & 0x80:
            at += 1
    return line


def line_of(kind, table, first_line, unit):
    if unit < 0:
        return first_line
    if kind == PEP_657:
        return line_657(table, first_line, unit)
    return (line_lnotab if kind == LNOTAB else line_626)(table, first_line, unit * 2)


class Stacks:
    """The stacks of a trace that has been read."""

    def __init__(self, trace):
        self.definitions = trace.definitions
        self.nodes_of, self.known = {}, {}
        named = (vtf.CODE, vtf.MODULE, vtf.STRING)
        payloads = self.definitions.payloads.items()
        self.changes = sorted(first for (kind, _), all_of in payloads if kind in named for first, _ in all_of)

    def once(self, make, stack, ordinal):
        """What `make` says of a stack, made once as long as no definition comes that could change it."""
        key = make, stack, bisect.bisect_right(self.changes, ordinal)
        if key not in self.known:
            self.known[key] = make(self.nodes(stack), ordinal)
        return self.known[key]

    def nodes(self, stack):
        """(kind, a, b) from the innermost to the outermost."""
        if stack in self.nodes_of:
            return self.nodes_of[stack]
        nodes, at = [], stack
        while at >= FIRST_STACK and (cursor := self.definitions.get(vtf.FRAME, at)):
            parent, *node = cursor.varint(), cursor.varint(), cursor.varint(), cursor.zigzag()
            if parent >= at:
                raise vtf.Damage("a stack's parent is not older")
            nodes.append(tuple(node))
            at = parent
        self.nodes_of[stack] = nodes
        return nodes

    def modules_called(self, event):
        """(class, address) of the nn.Modules that the frames of an event's Python stack call, innermost first."""
        called, at = [], event.python
        while at >= FIRST_STACK and (cursor := self.definitions.get(vtf.FRAME, at)):
            at, kind, _, _ = cursor.varint(), cursor.varint(), cursor.varint(), cursor.zigzag()
            instance = cursor.varint() if cursor.left and kind in (PYTHON, PYTHON_CALLED) else 0
            if instance:
                module = self.definitions.get(vtf.INSTANCE, instance, event.known_at)
                address = module.varint() if module else 0
                called.append((module.string() if module else "", address))
        return called

    def code_place(self, number, unit, ordinal):
        """(file, line, function) of a position in a code object."""
        cursor = self.definitions.get(vtf.CODE, number, ordinal)
        if cursor is None:
            return None, 0, None
        kind, first_line, name, file = cursor.varint(), cursor.varint(), cursor.string(), cursor.string()
        return file, line_of(kind, cursor.take(cursor.left), first_line, unit), name

    def python(self, event):
        """The Python stack of an event, innermost frame first; None: not captured, or a thread without Python."""
        return None if event.python < FIRST_STACK else self.once(self.python_of, event.python, event.known_at)

    def native(self, event):
        """The native stack of an event: where in which file the frames are."""
        return None if event.native < FIRST_STACK else self.once(self.native_of, event.native, event.known_at)

    def python_of(self, nodes, ordinal):
        frames, in_forward = [], False
        for kind, a, b in nodes:
            if kind in (PYTHON, PYTHON_CALLED):
                frames.append(PythonFrame(*self.code_place(a, b, ordinal), from_forward=in_forward))
            elif kind == CUT:
                frames.append(PythonFrame(None, 0, None, cut=a))
            elif kind == NODE:
                name = self.definitions.string(vtf.STRING, a, ordinal)
                frames.append(PythonFrame(None, 0, name, node=True))
                in_forward = b == 1
        return frames

    def native_of(self, nodes, ordinal):
        modules, frames = self.modules(ordinal), []
        for kind, a, _ in nodes:
            if kind == NATIVE:
                held = (NativeFrame(path, a - low + offset) for low, high, offset, path in modules if low <= a < high)
                frames.append(next(held, NativeFrame(None, a)))
            elif kind == CUT:
                frames.append(NativeFrame(None, 0, a))
            elif kind == NAMED:
                file, line, function = self.code_place(a, -1, ordinal)
                frames.append(NativeFrame(None, 0, named=(None if file in ("", "??") else file, line, function)))
        return frames

    def modules(self, ordinal):
        """(start, end, file offset, path) of what was mapped, the latest first."""
        cursors = [self.definitions.get(vtf.MODULE, number, ordinal) for number in self.definitions.numbers(vtf.MODULE)]
        return [(c.varint(), c.varint(), c.varint(), c.string()) for c in reversed(cursors) if c]

# SPDX-License-Identifier: MIT
"""A second reader of censuses (FORMAT.md, section 12), and what their objects are called when they are written out."""

from dataclasses import dataclass
from pathlib import Path

import vtf

EDGES = (
    "local global cycle attribute key number object index cell default member gradient self function native"
).split()
EDGE = {name: number for number, name in enumerate(EDGES, 1)}
KINDS = (
    "other tensor parameter module optimizer dict list tuple set deque function method class python_module generator "
    "exception traceback cell thread autograd"
).split()
WHY = {1: "oom", 2: "high", 3: "asked"}
WHOLE, NO_MEMORY, NO_TIME, COLLECTOR, FAULT = 1, 2, 4, 8, 16
TRANSPARENT = {"_modules", "_parameters", "_buffers"}


@dataclass
class Object:
    parent: int
    edge: str
    kind: str
    label: object  # str or int
    class_name: str
    length: int  # -1: it is no container
    address: int
    file: str
    line: int
    function: str
    thread: int
    flags: int  # of an nn.Module: 1 it trains, 2 it evaluates; 4 what was to freeze it freezes nothing; 8 an optimizer has it
    bound: int  # entries that a container has at most; -1: not known


@dataclass
class Tensor:
    object: int
    address: int
    bytes: int
    device: int
    flags: int
    holders: int
    nodes: int  # of autograd's graph that it keeps; 0: none, or not counted
    own_bytes: int  # of its elements; 0: none, or not known


class Census:
    def __init__(self, path):
        self.path = Path(path)
        self.trace = vtf.read(self.path)
        definitions = self.trace.definitions
        self.texts = {number: definitions.string(vtf.STRING, number) for number in definitions.numbers(vtf.STRING)}
        facts = definitions.get(vtf.CENSUS, 1)
        if not facts:
            raise vtf.Refused("empty")
        self.why, self.time_ns, self.device, self.allocated, self.flags, self.nr_objects, self.nr_tensors = (
            facts.varint() for _ in range(7)
        )
        self.objects = {n: self.object_of(definitions.get(vtf.OBJECT, n)) for n in definitions.numbers(vtf.OBJECT)}
        self.tensors = [
            Tensor(*(cursor.varint() for _ in range(6)), *(cursor.varint() if cursor.at < len(cursor.data) else 0 for _ in range(2)))
            for cursor in (definitions.get(vtf.TENSOR, n) for n in definitions.numbers(vtf.TENSOR))
        ]

    def object_of(self, cursor):
        parent, edge, kind = cursor.varint(), EDGES[cursor.varint() - 1], KINDS[cursor.varint()]
        label = cursor.zigzag() if edge == "number" else cursor.varint()
        class_name, length, address = self.text(cursor.varint()), cursor.varint() - 1, cursor.varint()
        file, line, function, thread = self.text(cursor.varint()), cursor.varint(), self.text(cursor.varint()), cursor.varint()
        flags = cursor.varint() if cursor.at < len(cursor.data) else 0
        bound = cursor.varint() - 1 if cursor.at < len(cursor.data) else -1
        if edge not in ("number", "object", "index"):
            label = self.text(label)
        return Object(parent, edge, kind, label, class_name, length, address, file, line, function, thread, flags, bound)

    def text(self, number):
        return self.texts.get(number, "") if number else ""

    def chain(self, number):
        """The objects from the root to this one."""
        found = []
        while number:
            found.append(self.objects[number])
            number = self.objects[number].parent
        return found[::-1]

    def name(self, number):
        """`main().model.layers.0.weight`, `main().history[3]`; what an nn.Module keeps its own in is left out."""
        return "".join(map(self.step, self.chain(number)))

    def step(self, one):
        parent = self.objects.get(one.parent)
        if one.edge == "local":
            return f"{'/' if parent else ''}{one.function}().{one.label}"
        if one.edge == "global":
            return "" if one.label == "__main__" else one.label
        if one.edge == "attribute":
            transparent = parent.kind == "module" and one.label in TRANSPARENT
            return "" if transparent else f".{one.label}" if parent.label != "__main__" else one.label
        if one.edge == "key":
            own = parent.edge == "attribute" and parent.label in TRANSPARENT and self.objects[parent.parent].kind == "module"
            return f".{one.label}" if own else f"['{one.label}']"
        if one.edge == "object":
            return f"[{self.name(one.label) if one.label else '?'}]"
        return {
            "number": f"[{one.label}]", "index": f"[{one.label}]", "cell": f"{{{one.label}}}",
            "default": f"({one.label}=)", "gradient": ".grad", "self": ".__self__", "function": ".__func__",
            "member": f"~{one.class_name}", "cycle": f"<cycle of {one.class_name}>",
            "native": f"<native {one.class_name}>",
        }[one.edge]  # fmt: skip

    def names(self):
        """{address: the names of the tensors that have their storage there}"""
        found = {}
        for tensor in self.tensors:
            found.setdefault(tensor.address, set()).add(self.name(tensor.object))
        return found


def censuses(recording):
    """All of a recording, in their order."""
    paths = sorted(Path(recording).rglob("*.names"), key=lambda path: (path.name.split(".")[:-2], int(path.name.split(".")[-2])))
    return [Census(path) for path in paths]

# SPDX-License-Identifier: MIT
"""The ledger of what is live (tracefmt/FORMAT.md, section 6)."""

from dataclasses import dataclass

TENSOR_ALLOC, TENSOR_FREE, TENSOR_OOM, DRIVER_ALLOC, DRIVER_FREE, FREE_FAILED = range(1, 7)
HANDLE_RETAIN, MAP, UNMAP, RESET, POOL_INFO = 8, 9, 10, 13, 19
ALLOCATED, RESERVED, DRIVER, MANAGED, PINNED, GRAPH = range(6)
IMPORTED = 7
NR_DEVICES = 64
NR_REMEMBERED = 256

GROUPS = {1: "pinned", 3: "registered", 6: "array", 8: "range"} | dict.fromkeys((4, 10, 12, 13), "handle")
QUANTITIES = {2: MANAGED} | dict.fromkeys((0, 4, 5, 6, 14, 15), DRIVER) | dict.fromkeys((1, 3, 11, 12), PINNED)
ENDED_BY_RESET = {"device", "pinned", "registered", "array"}


def group_of(space):
    return GROUPS.get(space, "device")


@dataclass(eq=False)
class Block:
    """What TENSOR_ALLOC, DRIVER_ALLOC or MAP made."""

    ordinal: int
    key: tuple
    device: int
    space: int
    address: int
    size: int
    shape: int
    stream: int
    context: int
    group: str
    handle: "Block" = None  # what a mapping shows
    released: "Block" = None  # the handle that lost a reference when the mapping ended
    references: int = 1

    @property
    def counted(self):
        """(quantity, device) that it adds to, or None."""
        if self.group == "tensor":
            quantity = ALLOCATED
        else:
            quantity = None if self.group == "mapping" else QUANTITIES.get(self.space)
        if quantity is None or quantity != PINNED and self.device >= NR_DEVICES:
            return None
        return quantity, 0 if quantity == PINNED else self.device


class Undoable:
    """A DRIVER_FREE or UNMAP, with the blocks that it took a reference of."""

    def __init__(self, event, blocks):
        self.ordinal, self.thread, self.blocks, self.is_unmap = event.ordinal, event.thread, blocks, event.kind == UNMAP


class Ledger:
    """Fed event by event, it gives frees what they undo and keeps blocks and totals."""

    def __init__(self):
        self.live, self.made, self.undoable, self.latest = {}, {}, {}, {}
        self.totals, self.peaks = {}, {}

    def known_totals(self):
        return {key: value for key, value in self.totals.items() if value}

    def snapshot(self):
        """What is live: by key, the event that made it and its references."""
        return {key: (block.ordinal, block.size, block.references) for key, block in self.live.items()}

    def set_totals(self, totals):
        self.totals = {}
        for key, value in totals.items():
            self.set_total(key, value)

    def set_total(self, key, value):
        self.totals[key] = value
        self.peaks[key] = max(self.peaks.get(key, 0), value)

    def count(self, block, sign):
        if key := block.counted:
            self.set_total(key, self.totals.get(key, 0) + sign * block.size)

    def start(self, block):
        self.live[block.key] = block
        self.count(block, 1)

    def is_live(self, block):
        return self.live.get(block.key) is block

    def stop(self, block):
        """A block ends, whatever its references; so does what a mapping holds of its handle."""
        if not self.is_live(block):
            return
        del self.live[block.key]
        self.count(block, -1)
        block.references = 0
        block.released = block.handle if block.handle and self.is_live(block.handle) else None
        if block.released:
            self.release(block.released)

    def release(self, block):
        if block.references > 1:
            block.references -= 1
        else:
            self.stop(block)

    def retain(self, block):
        """Undo of release(), unless another block has been made under the key."""
        if other := self.live.get(block.key):
            if other is block or block.group == other.group == "device" and block.space == other.space == IMPORTED:
                other.references += 1
            return
        block.references = 1
        self.start(block)
        if block.released:
            self.retain(block.released)

    def apply(self, event):
        kind = event.kind
        if kind in (TENSOR_ALLOC, DRIVER_ALLOC, MAP):
            self.make(event)
        elif kind in (TENSOR_FREE, DRIVER_FREE):
            self.free(event)
        elif kind == FREE_FAILED:
            self.undo(event)
        elif kind == HANDLE_RETAIN:
            if block := self.live.get(("handle", event.address)):
                block.references += 1
        elif kind == UNMAP:
            self.unmap(event)
        elif kind == RESET:
            self.reset(event)
        if kind in (TENSOR_ALLOC, TENSOR_FREE, TENSOR_OOM) and event.device < NR_DEVICES:
            self.set_total((RESERVED, event.device), event.aux)
        if kind == POOL_INFO and event.address == 0 and event.device < NR_DEVICES:
            self.set_total((GRAPH, event.device), event.size)

    def key_of(self, event):
        if event.kind in (TENSOR_ALLOC, TENSOR_FREE):
            return "tensor", event.address, event.device
        return "mapping" if event.kind == MAP else group_of(event.space), event.address

    def make(self, event):
        key = self.key_of(event)
        before = self.live.get(key)
        if before and event.kind == DRIVER_ALLOC and before.space == event.space == IMPORTED:
            before.references += 1
            return
        block = Block(event.ordinal, key, event.device, event.space, event.address, event.size, event.shape,
                      event.stream, event.aux, key[0])  # fmt: skip
        if event.kind == MAP:
            block.handle = self.live.get(("handle", event.aux))
            if block.handle:
                block.handle.references += 1
        if before:
            self.stop(before)
        self.made[event.ordinal] = block
        self.start(block)

    def undone_by(self, event):
        """The block that a free ends: by AGE where a frame says it, by address where the ring does not."""
        if event.joined:
            return self.live.get(self.key_of(event))
        return self.made.get(event.ordinal - event.age) if event.age else None

    def free(self, event):
        block = self.undone_by(event)
        if event.kind == DRIVER_FREE:
            self.remember(event, [block] if block else [])
        if not block:
            return
        event.alloc = block.ordinal
        event.address, event.size, event.shape, event.device = block.address, block.size, block.shape, block.device
        if event.kind == TENSOR_FREE:
            event.stream = block.stream
            self.stop(block)
        else:
            event.flags = event.flags & ~15 | block.space
            self.release(block)

    def unmap(self, event):
        ended, at, left = [], event.address, event.size
        while left > 0 and (block := self.live.get(("mapping", at))):
            self.stop(block)
            ended.append(block)
            at += block.size
            left -= block.size
        self.remember(event, ended)

    def remember(self, event, blocks):
        self.undoable[event.ordinal] = self.latest[event.thread % NR_REMEMBERED] = Undoable(event, blocks)

    def undo(self, event):
        if event.joined:
            what = self.latest.get(event.thread % NR_REMEMBERED)
            if what and (what.thread != event.thread or not what.blocks or what.blocks[0].address != event.address):
                what = None
        else:
            what = self.undoable.get(event.ordinal - event.age) if event.age else None
        if not what or not what.blocks:
            return
        first = what.blocks[0]
        event.alloc = what.ordinal
        event.address, event.shape, event.device = first.address, first.shape, first.device
        event.size = sum(block.size for block in what.blocks)
        if not what.is_unmap:
            event.flags = event.flags & ~15 | first.space
        for block in what.blocks:
            self.retain(block)
        what.blocks = []

    def reset(self, event):
        for block in list(self.live.values()):
            if (block.group, block.device, block.context) == (block.group, event.device, event.aux):
                if block.group in ENDED_BY_RESET:
                    self.stop(block)
        if event.aux == 0:
            self.set_total((GRAPH, event.device), 0)

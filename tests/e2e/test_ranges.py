# SPDX-License-Identifier: MIT
"""NVTX ranges of PyTorch programs: what `dump`, `peak` and `info` make of them."""
import pytest

MIB = 1 << 20


@pytest.fixture(scope="module")
def named(recorded):
    return recorded("ranges.py")


def by_range(vramtrace, recording, *moment):
    device = vramtrace.json("peak", "--by", "range", *moment, recording)["devices"][0]
    rows = {tuple(row["ranges"]): row["bytes"] for row in device["ranges"]}
    assert sum(rows.values()) == device["bytes"]
    return rows


def test_ranges_are_counted(vramtrace, named):
    found = vramtrace.json("info", named.path)["process_list"][0]
    assert (found["ranges"], found["marks"], found["complete"]) == (1 + 3 * 4, 3, True)


def test_bytes_by_range_at_the_end(vramtrace, named):
    rows = by_range(vramtrace, named.path, "--at", "end")
    assert rows[("training",)] == 3 * MIB
    assert rows[()] == 5 * MIB + 4 * 512 * 512 * 4  # and the weights
    assert sum(rows.values()) == named.ledger["end_bytes"]


def test_backward_lies_in_the_ranges_of_its_caller(vramtrace, named, events_of):
    """It runs on a thread of its own, which has entered none."""
    backward = {row[1:]: size for row, size in by_range(vramtrace, named.path).items() if row[-1:] == ("backward",)}
    assert backward and all(path[0].startswith("step ") for path in backward)
    threads = {e["tid"] for e in events_of(named.path) if e["kind"] == "tensor_alloc"}
    assert len(threads) == 2


def test_holders_name_their_ranges(vramtrace, named):
    groups = vramtrace.json("peak", "--at", "end", named.path)["devices"][0]["groups"]
    kept = [g for g in groups if g["count"] == 3]
    assert [g["ranges"] for g in kept] == [["training"]]
    text = vramtrace.call("peak", "-v", "--at", "end", named.path).stdout
    assert "in range training\n" in text
    assert "(in no range)" in vramtrace.call("peak", "--by", "range", "--at", "end", named.path).stdout


def test_peak_refuses_what_it_cannot_group_by(vramtrace, named):
    done = vramtrace.call("peak", "--by", "moon", named.path)
    assert done.returncode == 2 and "'moon' is not one of stack, name, category, module, block, range for '--by'" in done.stderr


def test_emit_nvtx_names_operations_and_record_function(vramtrace, recorded):
    emitted = recorded("ranges.py", "emit")
    paths = list(by_range(vramtrace, emitted.path))
    inside = [path[3:] for path in paths if path[:1] == ("training",) and path[2:3] == ("forward",)]
    assert all(path[0] in ("model", "aten::ones") for path in inside if path)
    assert any(path[-1].startswith("aten::") for path in inside)
    names = {name for path in paths for name in path}
    assert not any("op_id" in name or name == "PythonDispatchMode" for name in names)
    backward = [path for path in paths if len(path) > 3 and path[2] == "backward"]
    assert any("Backward0" in name for path in backward for name in path)
    assert vramtrace.json("info", emitted.path)["process_list"][0]["complete"]

# SPDX-License-Identifier: MIT
"""The report of an unmodified training script equals what PyTorch's own allocator counted, to the byte."""

import pytest

from allocator import explains, replay
from harness import python

# Job or example, and its arguments.
TRAINING = ["mlp.py", "gpt.py", "resnet50.py", "llama7b.py"]
ALL_JOBS = [*TRAINING, "train_gpt.py --stats", "threads.py", "data_loader.py", "fill_until_oom.py --catch"]

SHAPED_SHARE = 0.99
# The other jobs hold workspaces, which have no shape, of more than one per cent of a small peak.
SHAPED = [*TRAINING, "fill_until_oom.py --catch"]


@pytest.mark.parametrize("job", ALL_JOBS)
def test_report_equals_memory_stats(vramtrace, recorded, job):
    done = recorded(*job.split())
    assert done.status == 0, done.stderr
    report = vramtrace.json("report", done.path)
    assert report["schema"] == "vramtrace/report/1"
    assert report["recording"]["end"] == "exit"
    assert report["recording"]["complete"] and report["recording"]["simulated"]
    assert report["recording"]["lost_events"] == 0
    (device,) = report["devices"]
    tensor = device["tensor"]
    figures = {
        "allocation.all.allocated": tensor["allocs"],
        "allocation.all.freed": tensor["frees"],
        "allocated_bytes.all.peak": tensor["peak_bytes"],
        "allocated_bytes.all.current": tensor["live_at_end_bytes"],
        "reserved_bytes.all.peak": device["reserved"]["peak_bytes"],
        "reserved_bytes.all.current": device["reserved"]["end_bytes"],
        "num_ooms": tensor["ooms"],
    }
    assert figures == {name: done.ledger[name] for name in figures}
    assert tensor["alloc_retries"] in (None, done.ledger["num_alloc_retries"])
    assert device["exact"]


@pytest.mark.parametrize("job", ALL_JOBS)
def test_recording_changes_nothing(recorded, untraced, job):
    traced, plain = recorded(*job.split()), untraced(*job.split())
    assert traced.status == plain.status == 0
    assert traced.stderr == plain.stderr
    # Which thread reuses which block first is not fixed, nor at which addresses segments lie, and so how they split.
    fixed = ["allocation.all.allocated", "allocation.all.freed", "num_ooms"]
    fixed += ["allocated_bytes.all.peak", "reserved_bytes.all.peak"] if job != "threads.py" else []
    assert {name: traced.ledger[name] for name in fixed} == {name: plain.ledger[name] for name in fixed}
    assert traced.stdout.splitlines()[:-1] == plain.stdout.splitlines()[:-1]


@pytest.mark.parametrize("job", ALL_JOBS)
def test_every_allocation_has_its_stack(vramtrace, recorded, events_of, job):
    done = recorded(*job.split())
    script = str(python(*job.split())[1])
    (process,) = vramtrace.json("report", done.path)["process_list"]
    allocations = [event for event in events_of(done.path) if event["kind"].endswith("_alloc")]
    assert allocations
    for event in allocations:
        files = [frame["file"] for frame in event["python"] or ()]
        frames = event["python"] or ()
        if event["tid"] == process["pid"]:
            assert script in files, event
        elif event["python"] is None:
            assert event["no_python"], event
        elif frames[-1].get("node"):
            assert frames[-1]["function"] == "AccumulateGrad", event  # of a parameter: no call has made it
        elif frames[-1].get("from_forward"):
            assert script in files or frames[-1]["function"].endswith("_bootstrap"), event
        else:
            assert event["python"][-1]["function"].endswith("_bootstrap"), event


@pytest.mark.parametrize("job", SHAPED)
def test_shapes_at_the_peak(recorded, events_of, job):
    """Nearly all bytes at the peak have a shape, and each shape explains its block."""
    done = recorded(*job.split())
    peak, blocks = replay(events_of(done.path))
    assert peak == done.ledger["allocated_bytes.all.peak"]
    shaped = [block for block in blocks if block["shape"] is not None]
    assert sum(block["size"] for block in shaped) >= SHAPED_SHARE * peak
    for block in shaped:
        assert explains(block["shape"], block["dtype"], block["size"]), block


def test_shapes_of_what_is_made_empty(record, events_of, tmp_path):
    """Outputs of embedding and index_select get their size after the factory: shape and type are known all the same."""
    script = tmp_path / "lookup.py"
    script.write_text(
        "import torch\n"
        "table = torch.ones(1000, 48, device='cuda', dtype=torch.float16)\n"
        "rows = torch.zeros(7, 11, dtype=torch.int64, device='cuda')\n"
        "found = torch.nn.functional.embedding(rows, table)\n"
        "columns = table.index_select(1, rows[0])\n"
    )
    lines = {4: ([77, 48], "float16"), 5: ([1000, 11], "float16")}
    made = {
        event["python"][0]["line"]: (event["shape"], event["dtype"])
        for event in events_of(record(script).path)
        if event["kind"] == "tensor_alloc" and event["python"]
    }
    main = {line: made.get(line) for line in lines}
    assert main[5] == lines[5], made
    assert lines[4] in made.values(), made


@pytest.mark.parametrize("job", SHAPED)
def test_peak_lists_what_was_live(vramtrace, recorded, events_of, job):
    """`peak` shows the same bytes and blocks as a replay of the events does."""
    done = recorded(*job.split())
    peak, blocks = replay(events_of(done.path))
    printed = vramtrace.json("peak", done.path)
    (device,) = printed["devices"]
    assert sum(group["bytes"] for group in device["groups"]) == peak
    assert sum(group["count"] for group in device["groups"]) == len(blocks)


@pytest.mark.parametrize("job", ALL_JOBS)
def test_first_screen(vramtrace, recorded, job):
    """The page to read first fits the first screen of any terminal."""
    path = recorded(*job.split()).path
    for command in ("report", "leaks"):
        done = vramtrace.call(command, path)
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.splitlines()
        assert len(lines) <= 24, lines
        assert [line for line in lines if len(line) > 80 and str(path) not in line] == []


def test_what_the_first_example_says_means_something(vramtrace, recorded):
    """A simulated GPU computes nothing, so the script prints what holds on it as well: its memory, which is the report's."""
    done = recorded("train_gpt.py", "--stats")
    steps = [line for line in done.stdout.splitlines() if line.startswith("step ")]
    (device,) = vramtrace.json("report", done.path)["devices"]
    peak, end = device["tensor"]["peak_bytes"] / (1 << 20), device["tensor"]["live_at_end_bytes"]
    assert [line.split(":")[0] for line in steps] == ["step 10", "step 20"]
    for step, line in zip((10, 20), steps, strict=True):
        assert line.startswith(f"step {step}: {step * 16 * 512:,} tokens, ")
        assert line.endswith(f", peak {peak:,.0f} MiB")
    assert end < peak * (1 << 20) and "loss" not in done.stdout

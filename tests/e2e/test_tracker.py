# SPDX-License-Identifier: MIT
"""`run --tracker`: PyTorch's allocator tells of itself, and the figures are its own."""

from collections import Counter

import pytest

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
# PyTorch's numbers of what its allocator did; 256: while a tensor was being made.
ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP = range(6)
IN_TENSOR = 256


def tensor_figures(vramtrace, path):
    (device,) = vramtrace.json("report", path)["devices"]
    return device["tensor"]


def tracker(vramtrace, path):
    (process,) = vramtrace.json("info", path)["process_list"]
    return process["info"].get("tracker")


@pytest.mark.parametrize(
    "job, env",
    [
        pytest.param("tracked.py", None, id="refused by the driver"),
        pytest.param("tracked.py 0.5", None, id="refused by a limit of PyTorch's own"),
        pytest.param("tracked.py", EXPANDABLE, id="expandable segments"),
        pytest.param("threads.py", None, id="threads"),
    ],
)
def test_figures_are_the_allocators_own(vramtrace, record, job, env):
    done = record(*job.split(), options=["--tracker"], env=env)
    assert (done.status, done.stderr) == (0, "")
    assert tracker(vramtrace, done.path) == "attached"
    figures = tensor_figures(vramtrace, done.path)
    assert figures["alloc_retries"] == done.ledger["num_alloc_retries"]
    assert figures["peak_bytes"] == done.ledger["allocated_bytes.all.peak"]
    if job.startswith("tracked.py"):
        assert figures["requested_peak_bytes"] == done.ledger["requested_peak"]


def test_what_the_allocator_tells(vramtrace, record):
    """Every block, each with what was asked for, every segment, and when a shared block was really free."""
    done = record("tracked.py", options=["--tracker"])
    events = vramtrace.events(done.path)
    events = [event for event in events if not event["teardown"]]
    told = [event for event in events if event["kind"] == "allocator"]
    actions = Counter(event["action"] % IN_TENSOR for event in told)
    assert actions[ALLOC] == done.ledger["allocation.all.allocated"]
    assert actions[FREE_REQUESTED] == done.ledger["allocation.all.freed"]
    assert actions[SEGMENT_ALLOC] == done.ledger["segments"]
    assert {event["size"] for event in told if event["action"] % IN_TENSOR == ALLOC} >= {4 * 1007, 4 * 5_000_001}
    first = next(event for event in told if event["size"] == 4 * 5_000_001)
    (completed,) = [
        event for event in told if event["action"] % IN_TENSOR == FREE_COMPLETED and event["size"] == 4 * 5_000_001
    ]
    (freed,) = [event for event in events if event["kind"] == "tensor_free" and event["address"] == first["address"]]
    assert completed["ordinal"] > freed["ordinal"]
    emptied = [event for event in told if event["action"] == SEGMENT_FREE]
    assert emptied and emptied[-1]["size"] >= 1 << 30  # empty_cache(): no tensor was being made


def test_recording_changes_nothing(record, untraced):
    done, plain = record("tracked.py", options=["--tracker"]), untraced("tracked.py")
    assert done.stdout == plain.stdout
    assert done.stderr == plain.stderr == ""


def test_without_it(vramtrace, record):
    """Not asked for: the figures that it alone gives are null. Not there: `info` says why."""
    done = record("tracked.py")
    assert tracker(vramtrace, done.path) is None
    assert tensor_figures(vramtrace, done.path)["alloc_retries"] is None
    env = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    done = record("mlp.py", options=["--tracker"], name="async.vtr", env=env)
    assert tracker(vramtrace, done.path) in (None, "not attached: the allocator is not PyTorch's caching allocator")

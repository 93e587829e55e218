# SPDX-License-Identifier: MIT
"""What PyTorch does on one GPU: every case runs, and what was recorded is what PyTorch's allocator counted."""

import functools
import json

import pytest

from coverage_core import ALLOCATOR, BEYOND, CASES, COMPILED, TOOLS
from coverage_table import parameters
from harness import JOBS, python

REPORTED = {
    "allocation.all.allocated": ("tensor", "allocs"),
    "allocation.all.freed": ("tensor", "frees"),
    "allocated_bytes.all.peak": ("tensor", "peak_bytes"),
    "allocated_bytes.all.current": ("tensor", "live_at_end_bytes"),
    "reserved_bytes.all.peak": ("reserved", "peak_bytes"),
    "reserved_bytes.all.current": ("reserved", "end_bytes"),
    "num_ooms": ("tensor", "ooms"),
}


def named(cases, *names):
    return [case for case in cases if case.name in names]


@pytest.fixture(scope="session")
def run_case(vramtrace, tmp_path_factory):
    """run_case(case): the recording of the case's job; made once for all cases that share it."""
    runs, folder = {}, tmp_path_factory.mktemp("coverage")

    def run(case):
        words = case.job.split()
        environment = case.options.get("env", {})
        key = (case.job, *environment.items(), case.name if case in COMPILED else None)
        if key not in runs:
            if case.name == "compile-warm":  # whichever test runs first: the cold run fills the caches
                run(*named(COMPILED, "compile-cold"))
            places = {"CACHE": folder / "cache", "FOLDER": folder}
            runs[key] = vramtrace.record(
                folder / f"{len(runs)}.vtr",
                python(f"coverage/{words[0]}", *(places.get(word, word) for word in words[1:])),
                gpu=case.options.get("gpu", "h100"),
                env={"PYTHONPATH": str(JOBS)} | environment,
            )
        return runs[key]

    return run


def parts_of(done):
    """What the job printed after each of its parts, by name."""
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"part"')]
    return {line["part"]: line for line in lines}


@pytest.fixture(scope="session")
def tensor_events(vramtrace):
    """tensor_events(recording): its events without stacks, read once."""

    @functools.cache
    def read(recording):
        done = vramtrace.call("dump", "--json", recording)
        assert done.returncode == 0, done.stderr
        return [event for event in map(json.loads, done.stdout.splitlines()) if event["kind"].startswith("tensor_")]

    return read


def live_after(events, counted):
    """The blocks (bytes by address) after as many allocations and frees as PyTorch counted, and the peak until then."""
    allocs, frees = counted["allocation.all.allocated"], counted["allocation.all.freed"]
    live, allocated, peak = {}, 0, 0
    for event in events:
        if allocs == frees == 0:
            break
        if event["kind"] == "tensor_alloc":
            live[event["address"]] = event["size"]
            allocated += event["size"]
            peak = max(peak, allocated)
            allocs -= 1
        elif event["kind"] == "tensor_free":
            allocated -= live.pop(event["address"])
            frees -= 1
    assert allocs == frees == 0, "the recording lacks events"
    return live, peak


@pytest.mark.parametrize("case", parameters([case for case in CASES if case not in BEYOND]))
def test_ledger_equals_torchs_own(vramtrace, run_case, tensor_events, case):
    for module in case.options.get("needs", ()):
        pytest.importorskip(module)
    done = run_case(case)
    assert done.status == 0, done.stderr
    report = vramtrace.json("report", done.path)
    assert report["recording"]["complete"] and report["recording"]["lost_events"] == 0
    (device,) = report["devices"]
    figures = {name: device[ledger][figure] for name, (ledger, figure) in REPORTED.items()}
    if case.name == "malloc-async":  # that backend counts bytes, and nothing else
        counted = ["allocated_bytes.all.peak", "allocated_bytes.all.current"]
        assert [figures[name] for name in counted] == [done.ledger[name] for name in counted]
        assert device["tensor"]["allocs"] > 100 and device["tensor"]["ooms"] == 1
        return
    assert figures == {name: done.ledger[name] for name in figures}
    assert device["exact"]
    part = parts_of(done).get(case.name)
    if part:
        live, peak = live_after(tensor_events(done.path), part)
        assert sum(live.values()) == part["allocated_bytes.all.current"]
        assert peak == part["allocated_bytes.all.peak"]


def test_every_part_is_a_case(run_case):
    """A part that no case names would be tested by nobody."""
    for job in {case.job for case in CASES if case not in COMPILED}:
        sharing = [case for case in CASES if case.job == job]
        assert set(parts_of(run_case(sharing[0]))) in ({case.name for case in sharing}, set()), job


@pytest.mark.parametrize("case", parameters(named(COMPILED, "compile-cold", "compile-warm")))
def test_compiled_programs_use_their_caches(run_case, case):
    ledger = run_case(case).ledger
    assert ledger["graphs"] == 1
    assert bool(ledger["hits"]) == (case.name == "compile-warm")


@pytest.mark.parametrize("case", parameters(named(TOOLS, "own-recorder")))
def test_torchs_own_recorder_agrees(vramtrace, run_case, tensor_events, case):
    """PyTorch's snapshot has the bytes and the live blocks that we recorded, and its history as many events."""
    done = run_case(case)
    ledger = done.ledger
    assert ledger["snapshot_reserved"] == ledger["reserved_bytes.all.current"]
    assert ledger["snapshot_allocated"] == ledger["allocated_bytes.all.current"]
    assert ledger["snapshot_allocs"] == ledger["allocation.all.allocated"]
    assert ledger["snapshot_frees"] == ledger["allocation.all.freed"]
    live, _ = live_after(tensor_events(done.path), ledger)
    assert live == {address: size for address, size in ledger["live"]}


@pytest.mark.parametrize("case", parameters(named(ALLOCATOR, "expandable-segments", "malloc-async")))
def test_out_of_memory_says_what_torch_says(run_case, case):
    said = "Allocation on device" if case.name == "malloc-async" else "GPU 0 has a total capacity of 79.18 GiB"
    assert said in run_case(case).stdout.splitlines()[0]


@pytest.mark.parametrize("case", parameters(BEYOND))
def test_clear_error(run_case, case):
    done = run_case(case)
    assert done.status == 0, done.stderr
    assert done.ledger["errors"] and all(done.ledger["errors"])

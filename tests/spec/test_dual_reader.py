# SPDX-License-Identifier: MIT
"""
The golden traces, and recordings made now, read by vramtrace and by a reader that knows FORMAT.md alone: the same
events field by field, the same totals, the same verdict.
"""

import copy
import json
import lzma
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

import dual
import vtf
import vtf_ledger
import vtf_stacks

TRACES = sorted(dual.GOLDEN.glob("v*/*.vtr"))
SEED = 20240607
PRIVATE_FOLDERS = (b"/root/", b"/home/", b"/tmp/")


@pytest.fixture
def golden(request, tmp_path):
    """The golden trace of this parameter, its ring file unpacked beside it."""
    source = request.param
    packed = source.with_suffix(".ring.xz")
    if not packed.exists():
        return source
    shutil.copy(source, tmp_path)
    (tmp_path / source.with_suffix(".ring").name).write_bytes(lzma.decompress(packed.read_bytes()))
    return tmp_path / source.name


every_golden = pytest.mark.parametrize("golden", TRACES, indirect=True, ids=lambda path: path.stem)


def test_goldens_are_there():
    assert {path.parent.name for path in TRACES} == {"v1"} and len(TRACES) == 39


@every_golden
def test_same_events_and_verdict(golden):
    trace = dual.assert_same(golden)
    assert trace.events
    if not trace.damage:
        assert trace.totals_differ == []


@every_golden
def test_same_totals(golden):
    check_report(vtf.read(golden), golden)


def given_back_unreported(counted, device):
    """Whether the driver got memory back after the last event that tells what is reserved: a report counts that."""
    told = False
    for event in counted.events:
        if event.device == device and event.name in ("tensor_alloc", "tensor_free", "driver_free"):
            told = event.name != "driver_free"
    return not told


def check_report(trace, path):
    report = json.loads(dual.call("report", "--json", path).stdout)
    if trace.damage:  # peaks are "at least": the two may differ in how much
        return
    counted = dual.Counted(trace)
    (process,) = report["process_list"]
    info, _ = trace.definitions.info()
    is_told = "imported" not in info or "imported_host" in info  # of what was imported, memory of the host may not be
    assert process["pinned"]["peak_bytes"] == (counted.peaks.get((vtf_ledger.PINNED, 0), 0) if is_told else None)
    for device in report["devices"]:
        number = device["device"]
        for name, quantity in dual.QUANTITIES.items():
            assert device[name]["peak_bytes"] == counted.peaks.get((quantity, number), 0), name
            end = "end_bytes" if name == "reserved" else "live_at_end_bytes"
            if name == "reserved" and given_back_unreported(counted, number):
                continue
            assert device[name][end] == counted.now.get((quantity, number), 0), name
        of_device = [event.name for event in counted.events if event.device == number]
        dropped = trace.figures or {}
        assert device["tensor"]["allocs"] == of_device.count("tensor_alloc") + dropped.get((1, number), 0)
        assert device["tensor"]["frees"] == of_device.count("tensor_free") + dropped.get((2, number), 0)


@every_golden
def test_goldens_name_no_folder_of_a_machine(golden):
    trace = vtf.read(golden)
    assert trace.header.host in ("golden", "")  # what is imported has none
    payloads = [payload for versions in trace.definitions.payloads.values() for _, payload in versions]
    assert payloads
    assert [payload for payload in payloads if any(folder in payload for folder in PRIVATE_FOLDERS)] == []


def test_goldens_hold_what_they_are_for():
    """Each golden still is a test of something: these kinds, these flags, these ends are among them."""
    traces = {path.stem: vtf.read(path) for path in TRACES}
    names = {event.name for trace in traces.values() for event in trace.events}
    assert names >= {*vtf.KINDS}
    assert traces["damaged"].missing and traces["cut"].cut_bytes and not traces["killed"].end
    cut = traces["native-stacks"]
    stacks = vtf_stacks.Stacks(cut)
    frames = [frame for event in cut.events for frame in (stacks.python(event) or []) + (stacks.native(event) or [])]
    assert {frame.cut for frame in frames} >= {0, 4096}
    taken_back = [event for trace in traces.values() for event in trace.events if event.name == "free_failed"]
    assert {event.alloc is None for event in taken_back} == {True, False}


@every_golden
def test_ledger_by_address(golden):
    """What frees undo, found without AGE, as the ring file's events need it, is what the recorder has found."""
    trace = vtf.read(golden)
    if trace.missing:
        return
    by_address = vtf_ledger.Ledger()
    for event in trace.before + trace.events:
        again = copy.copy(event)
        again.joined, again.age, again.alloc = True, 0, None
        by_address.apply(again)
        assert again.alloc == event.alloc, f"{event.name} {event.ordinal}"
    if not trace.before:
        assert by_address.known_totals() == trace.ledger.known_totals()


KEPT = [path for path in TRACES if path.stem.startswith("kept")]
INDEXED = [path for path in TRACES if path.stem.startswith("indexed")]


@pytest.mark.parametrize("path", KEPT + INDEXED, ids=lambda path: path.stem)
def test_checkpoints_say_what_is_in_effect(path):
    """What a checkpoint holds, replayed alone, is what a reader that has come there knows."""
    trace = vtf.read(path)
    assert trace.checkpoints and bool(trace.dropped and trace.before) == (path in KEPT)
    for checkpoint in trace.checkpoints:
        assert checkpoint.replayed() == checkpoint.live
        assert checkpoint.figures[28, 64]
        assert path in KEPT or checkpoint.figures[37, 64] == len(checkpoint.events) + 1


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_kept_is_the_tail_of_the_whole(path):
    """Event by event what the trace holds that it was cut from, and what was live there when it was cut."""
    kept = vtf.read(path)
    whole = vtf.read(path.with_stem({"kept": "training", "kept-passes": "training"}.get(path.stem, path.stem.removeprefix("kept-"))))
    assert whole.events[kept.dropped].ordinal == kept.events[0].ordinal == kept.dropped
    names = set(vtf.Event.__slots__) - {"age", "before", "joined"}
    for event, original in zip(kept.events, whole.events[kept.dropped :], strict=True):
        assert [getattr(event, name) for name in names] == [getattr(original, name) for name in names]
    assert kept.ledger.snapshot() == whole.ledger.snapshot()
    assert kept.ledger.known_totals() == whole.ledger.known_totals()


def test_backward_passes_before(tmp_path):
    """What had been counted when each backward pass began that was dropped: by PASSES, and by the whole trace's events."""
    kept, whole = (vtf.read(dual.GOLDEN / "v1" / name) for name in ("kept-passes.vtr", "training.vtr"))
    found, ledger, names, peak, latest = [], vtf_ledger.Ledger(), [], 0, 0
    for event in whole.events[: kept.dropped]:
        latest = max(latest, event.time << whole.header.time_shift)
        if event.name == "phase_begin" and event.address == 1 and not event.aux:
            allocated = ledger.totals.get((vtf_ledger.ALLOCATED, 0), 0)
            counted = names.count("tensor_alloc"), names.count("tensor_free")
            found.append((len(found) + 1, latest, allocated, peak, *counted))
            peak = allocated
        ledger.apply(event)
        names.append(event.name)
        peak = max(peak, ledger.totals.get((vtf_ledger.ALLOCATED, 0), 0))
    assert len(found) == kept.figures[32, 64] == 2
    assert kept.definitions.passes(kept.dropped) == {0: found}
    copy_without_names = tmp_path / "copy.vtr"
    dual.call("anonymize", kept.path, copy_without_names)
    assert vtf.read(copy_without_names).definitions.passes(kept.dropped) == {0: found}


# ---- recordings made now ---------------------------------------------------------------------------------------


def environment(**more):
    ours = ("PYTORCH_", "VRAMTRACE_", "SIMGPU_", "CUBLAS_", "SLURM_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | more


def the_trace(recording):
    (path,) = recording.glob("*.vtr")
    return path


@pytest.fixture(scope="module")
def driver_loop(tmp_path_factory):
    """The C program that allocates for ever and counts in a file."""
    program = tmp_path_factory.mktemp("compiled") / "driver_loop"
    flags = (dual.BUILD / "cuda.flags").read_text().split()
    source = dual.TREE / "tests" / "crash" / "driver_loop.c"
    subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", "-o", program, source, *flags], check=True)
    return program


@pytest.mark.parametrize("number", range(5))
def test_driver_loop_killed_at_random(driver_loop, tmp_path, number):
    counts, recording = tmp_path / "counts", tmp_path / "job.vtr"
    counts.write_bytes(bytes(4096))
    libraries = [dual.BUILD / "libinterpose.so", dual.BUILD / "simgpu" / "libsimgpu.so"]
    env = environment(LD_PRELOAD=":".join(map(str, libraries)), LD_LIBRARY_PATH=str(dual.BUILD / "simgpu"),
                      SIMGPU_PROFILE="h100", VRAMTRACE_SIMULATE="h100", VRAMTRACE_OUTPUT=str(recording),
                      VRAMTRACE_RINGS="folder")  # fmt: skip
    process = subprocess.Popen([driver_loop, counts], env=env)
    try:
        while counts.read_bytes()[:8] == bytes(8) and process.poll() is None:
            time.sleep(0.001)
        time.sleep(random.Random(SEED + number).uniform(0, 0.01))
    finally:
        process.kill()
        process.wait()
    trace = dual.assert_same(the_trace(recording))
    assert trace.ring and trace.how_it_ended == "killed"
    assert trace.totals_differ == []
    assert len(trace.events) >= int.from_bytes(counts.read_bytes()[:8], "little")
    check_report(trace, the_trace(recording))


def test_threads_killed(tmp_path):
    """PyTorch on several threads; the ring file has the end of each."""
    recording, script = tmp_path / "job.vtr", dual.GOLDEN / "jobs" / "killed.py"
    argv = [dual.BUILD / "vramtrace", "run", "-q", "--exec", "--simulate", "h100", "--rings", "folder", "-o", recording, "--"]
    pause_s = random.uniform(0, 2)
    done = subprocess.run([*argv, sys.executable, script, str(pause_s)], env=environment(), timeout=dual.LIMIT_S)
    assert done.returncode == -signal.SIGKILL
    trace = dual.assert_same(the_trace(recording))
    assert trace.joined and trace.how_it_ended == "killed"
    assert len({event.thread for event in trace.events}) >= 4
    check_report(trace, the_trace(recording))


def test_rings_in_shared_memory(tmp_path):
    """The second reader joins them, too, as long as they are there: vramtrace completes the trace from them."""
    recording, script = tmp_path / "job.vtr", dual.GOLDEN / "jobs" / "killed.py"
    argv = [dual.BUILD / "vramtrace", "run", "-q", "--exec", "--simulate", "h100", "--rings", "shm", "-o", recording, "--"]
    done = subprocess.run([*argv, sys.executable, script, "0.1"], env=environment(), timeout=dual.LIMIT_S)
    assert done.returncode == -signal.SIGKILL
    trace = vtf.read(the_trace(recording))
    if not trace.header.ring_path.startswith("shm:"):
        pytest.skip("no shared memory can be had here")
    assert trace.joined and trace.how_it_ended == "killed"
    assert len({event.thread for event in trace.events}) >= 4
    dual.assert_same_events(trace, the_trace(recording))
    assert not vtf.read(the_trace(recording)).joined

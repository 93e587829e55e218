# SPDX-License-Identifier: MIT
"""
The flight recorder: a job recorded with little room has the figures of the whole job, and its end event by event.

The same job recorded with all the room it takes, and PyTorch's own counters, are what it is compared with.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness import LIMIT_S, WITH_NAMES, program_environment, python

CRASH = Path(__file__).resolve().parents[1] / "crash"
MIB = 1 << 20
STEPS = 6500  # a megabyte: the oldest part is dropped several times
PAIRS = 1_200_000  # allocations and frees of the C program: as much
ADDRESSES = {"address", "handle", "tid", "pid", "time_ns"}  # what differs between two runs
SEED = 20240615
BACKWARD = 1  # a phase
ALIKE = {"VRAMTRACE_SAMPLE_MIB": "0"}  # when the driver is asked depends on time, too


class Watch:
    """Looks at a folder as often as it can: the most that its traces took, and how often one was replaced."""

    def __init__(self, folder):
        self.folder, self.most, self.inodes, self.latest, self.done = folder, 0, [], {}, False

    def look(self):
        total = 0
        for entry in os.scandir(self.folder) if self.folder.exists() else ():
            try:
                if entry.name.endswith((".vtr", ".vtr.new")):
                    total += entry.stat().st_size
                    if entry.name.endswith(".vtr") and self.latest.get(entry.name) != entry.inode():
                        self.inodes.append(entry.inode())  # a number comes again: the file system gives it to the next
                        self.latest[entry.name] = entry.inode()
            except FileNotFoundError:  # it has got another name in between
                pass
        self.most = max(self.most, total)

    def run(self):
        while not self.done:
            self.look()
            time.sleep(0.0005)

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done = True
        self.thread.join()
        self.look()


@pytest.fixture(scope="module")
def long_job(vramtrace, tmp_path_factory):
    """The long job, with all its events."""
    folder = tmp_path_factory.mktemp("whole")
    return vramtrace.record(folder / "job.vtr", python("long.py", "--steps", STEPS), env=ALIKE)


@pytest.fixture(scope="module")
def kept_job(vramtrace, tmp_path_factory):
    """The same with little room: the recording, and what it took meanwhile."""
    output = tmp_path_factory.mktemp("kept") / "job.vtr"
    with Watch(output) as watch:
        program = python("long.py", "--steps", STEPS)
        recorded = vramtrace.record(output, program, options=["--keep", "1MiB"], env=ALIKE)
    return recorded, watch


def without_addresses(event):
    without = {name: value for name, value in event.items() if name not in ADDRESSES}
    if "modules" in event:
        without["modules"] = [module["class"] for module in event["modules"]]
    return without


def test_figures_are_those_of_the_whole_job(vramtrace, long_job, kept_job):
    kept, watch = kept_job
    assert kept.status == long_job.status == 0
    assert len(watch.inodes) > 2, "the oldest part was dropped less than twice"
    report, whole = (vramtrace.json("report", job.path) for job in (kept, long_job))
    for name in ("events", "lost_events", "complete", "end"):
        assert report["recording"][name] == whole["recording"][name], name
    assert report["recording"]["complete"] and report["recording"]["kept_from_ns"]
    assert whole["recording"]["kept_from_ns"] is None
    (device,), (all_of_it,) = report["devices"], whole["devices"]
    ledger = kept.ledger
    assert device["tensor"]["allocs"] == ledger["allocation.all.allocated"]
    assert device["tensor"]["frees"] == ledger["allocation.all.freed"]
    assert device["tensor"]["peak_bytes"] == ledger["allocated_bytes.all.peak"]
    assert device["tensor"]["live_at_end_bytes"] == ledger["allocated_bytes.all.current"]
    assert device["tensor"]["ooms"] == ledger["num_ooms"] == 1
    assert device["reserved"]["peak_bytes"] == ledger["reserved_bytes.all.peak"]
    assert device["exact"]
    assert device["tensor"]["peak_time_ns"] < report["recording"]["kept_from_ns"]
    for part in ("tensor", "reserved", "driver"):
        same = {name: value for name, value in all_of_it[part].items() if name != "peak_time_ns"}
        assert {name: device[part][name] for name in same} == same, part
    assert device["unused_at_peak"] == all_of_it["unused_at_peak"]
    assert sum(device["categories_at_peak"].values()) == device["tensor"]["peak_bytes"]
    assert device["categories_at_peak"]["unknown"] == device["tensor"]["peak_bytes"]  # it was before what is kept
    assert sum(device["driver"]["by_owner_at_peak"].values()) == device["driver"]["peak_bytes"]


def backward_passes(events):
    """(allocated, most since the one before, allocations, frees) when each outermost backward pass began, by events alone."""
    allocated, peak, allocs, frees, sizes = 0, 0, 0, 0, {}
    for event in events:
        if event["kind"] == "tensor_alloc":
            sizes[event["address"]] = event["size"]
            allocated, allocs = allocated + event["size"], allocs + 1
            peak = max(peak, allocated)
        elif event["kind"] == "tensor_free":
            allocated, frees = allocated - sizes.pop(event["address"]), frees + 1
        elif event["kind"] == "phase_begin" and event["address"] == BACKWARD and event["depth"] == 0:
            yield allocated, peak, allocs, frees
            peak = allocated


def test_passes_that_were_dropped(vramtrace, long_job, kept_job):
    """How the whole job went is known from its first pass to the kept part, pass by pass."""
    steps, all_of_it = (vramtrace.json("report", job.path)["devices"][0]["steps"] for job in (kept_job[0], long_job))
    assert all_of_it["passes_before"] == []
    told = steps["passes_before"]
    assert STEPS - steps["count"] <= len(told) <= STEPS - steps["count"] + 1
    assert [row["pass"] for row in told] == [*range(1, len(told) + 1)]
    found = [(row["allocated_bytes"], row["peak_bytes"], row["allocs"], row["frees"]) for row in told]
    assert found == [*backward_passes(vramtrace.events(long_job.path))][: len(told)]
    assert [row["time_ns"] for row in told] == sorted(row["time_ns"] for row in told)
    assert f"before (backward passes 2 to {len(told)}): " in vramtrace.call("leaks", kept_job[0].path).stdout


LAYERS = f"""
import random
import torch
from torch import nn
model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(3)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
chance, kept = random.Random({SEED}), []
for step in range({STEPS}):
    out = model(torch.empty(chance.randrange(1, 3000), 64, device="cuda"))
    out.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(out.detach())
try:
    torch.empty(1 << 40, device="cuda")
except torch.OutOfMemoryError:
    pass
"""


def test_layers_whose_calls_were_dropped(vramtrace, tmp_path):
    """Which of several layers made a tensor is known of the part that is kept, too."""
    (tmp_path / "layers.py").write_text(LAYERS)
    command = [sys.executable, tmp_path / "layers.py"]
    bytes_of = []
    for name, options in (("whole.vtr", []), ("kept.vtr", ["--keep", "1MiB"])):
        recorded = vramtrace.record(tmp_path / name, command, options=options, env=WITH_NAMES)
        (device,) = vramtrace.json("oom", recorded.path)["devices"]
        bytes_of.append({row["module"]: row["bytes"] for row in device["modules"]})
    whole, kept = bytes_of
    for module in ("0", "1", "2"):  # also what was made before the part that is kept: its stacks have the modules
        assert 0 < kept[module] == whole[module], module


def test_events_are_the_tail_of_the_whole(vramtrace, long_job, kept_job):
    kept = vramtrace.events(kept_job[0].path)
    whole = vramtrace.events(long_job.path)
    before = [event for event in kept if event.get("before")]
    rest = kept[len(before) :]
    assert before and rest and rest[0]["ordinal"] > STEPS
    assert not any(event.get("before") for event in rest)
    assert len(whole) == rest[-1]["ordinal"] + 1
    live = {event["ordinal"] for event in whole[: rest[0]["ordinal"]] if event["kind"] == "tensor_alloc"}
    live -= {event.get("alloc_ordinal") for event in whole[: rest[0]["ordinal"]] if event["kind"] == "tensor_free"}
    assert {event["ordinal"] for event in before if event["kind"] == "tensor_alloc"} == live
    for event, original in zip(rest, whole[rest[0]["ordinal"] :], strict=True):
        assert without_addresses(event) == without_addresses(original)
    for event in before:
        original = whole[event["ordinal"]]
        assert without_addresses(event | {"before": None}) == without_addresses(original | {"before": None})


def holders(vramtrace, command, *arguments):
    found = vramtrace.json(command, *arguments)
    return sorted(
        (row["bytes"], row["count"], row["site"]["file"] or "", row["site"]["line"] or 0, row["phase"])
        for row in (found.get("groups") or [row for device in found["devices"] for row in device["groups"]])
    )


def test_the_end_is_explained_as_in_the_whole(vramtrace, long_job, kept_job):
    kept = kept_job[0].path
    for arguments in (["leaks"], ["peak", "--at", "oom"], ["peak", "--at", "end"]):
        assert holders(vramtrace, *arguments, kept) == holders(vramtrace, *arguments, long_job.path), arguments


def test_segments_at_the_end_are_those_of_the_whole(vramtrace, long_job, kept_job):
    kept, whole = (vramtrace.json("frag", path)["devices"][0]["moments"]["end"] for path in (kept_job[0].path, long_job.path))
    for moment in (kept, whole):
        del moment["time_ns"], moment["forced_bytes"]  # of the kept part alone
        for blocker in moment["blockers"]:
            del blocker["first_segment"], blocker["oldest_ns"]  # an address and a time
    assert kept == whole


def test_a_peak_before_is_not_explained(vramtrace, kept_job):
    kept = kept_job[0].path
    shown = vramtrace.call("peak", kept)
    assert shown.returncode == 0 and "not kept" in shown.stdout
    report = vramtrace.json("report", kept)
    (device,) = vramtrace.json("peak", kept)["devices"]
    assert device["bytes"] == report["devices"][0]["tensor"]["peak_bytes"]
    assert [group["before"] for group in device["groups"]] == [True]
    at = vramtrace.call("peak", "--at", "10ms", kept)
    assert at.returncode == 2 and "keeps nothing of that time" in at.stderr


def test_every_command_says_what_is_kept(vramtrace, long_job, kept_job):
    said = r"the last [0-9.]+ m?s \(of [0-9.]+ s\)|the events from [0-9]+ on"
    for command in (["report"], ["peak"], ["timeline"], ["leaks"], ["info"], ["verify"], ["dump", "--limit", "1"]):
        for path, is_kept in ((kept_job[0].path, True), (long_job.path, False)):
            done = vramtrace.call(*command, path)
            assert done.returncode == 0, done.stderr
            assert bool(re.search(said, done.stdout + done.stderr)) == is_kept, command
    assert "the last" in vramtrace.call("report", kept_job[0].path).stdout


def test_no_baseline_is_made_of_a_part(vramtrace, kept_job):
    done = vramtrace.call("baseline", kept_job[0].path)
    assert done.returncode == 2 and not done.stdout
    assert "it keeps the last " in done.stderr and "record it without --keep" in done.stderr
    assert vramtrace.json("report", kept_job[0].path)["devices"][0]["steps"]["of_kept_part"]


def test_no_more_room_than_was_given(kept_job):
    _, watch = kept_job
    assert MIB // 4 < watch.most <= MIB


def test_a_timeline_has_no_values_before(vramtrace, kept_job):
    path = kept_job[0].path
    start = vramtrace.json("report", path)["recording"]["kept_from_ns"]
    (device,) = vramtrace.json("timeline", "--points", "100", path)["devices"]
    times = [point["time_ns"] for point in device["points"]]
    for point, following in zip(device["points"], [*times[1:], 1 << 63]):
        assert (point["allocated_bytes"] is None) == (following <= start)
        assert point["allocated_bytes"] is None or point["allocated_bytes"] > 0


def test_copies_keep_it(vramtrace, kept_job, tmp_path):
    path = kept_job[0].path
    report = vramtrace.json("report", path)
    for command in (["anonymize", path, tmp_path / "copy.vtr"], ["verify", "--repair", tmp_path / "copy.vtr", path]):
        done = vramtrace.call(*command)
        assert done.returncode == 0, done.stderr
        again = vramtrace.json("report", tmp_path / "copy.vtr")
        assert again["recording"] == report["recording"] | {"path": again["recording"]["path"]}
        for part in ("tensor", "reserved", "driver", "categories_at_peak"):
            assert again["devices"][0][part] == report["devices"][0][part]
        assert vramtrace.call("verify", tmp_path / "copy.vtr").returncode == 0
        subprocess.run(["rm", "-r", tmp_path / "copy.vtr"], check=True)


def test_steps(vramtrace, tmp_path):
    """At least so many steps of the job, however many backward passes each has, and not all of them."""
    output = tmp_path / "job.vtr"
    program = python("long.py", "--steps", "3000", "--accumulate", "2")
    recorded = vramtrace.record(output, program, options=["--keep-steps", "500"])
    events = [event for event in vramtrace.events(output) if not event.get("before")]
    assert events[0]["ordinal"] > 1000
    passes = sum(event["kind"] == "phase_begin" and event["depth"] == 0 for event in events)
    assert 1000 <= passes < 4000
    (device,) = vramtrace.json("report", output)["devices"]
    assert device["tensor"]["allocs"] == recorded.ledger["allocation.all.allocated"]


# ---- crashes and storage ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loop(compile_c, cuda_flags):
    return compile_c(CRASH / "driver_loop.c", *cuda_flags)


@pytest.fixture
def start_loop(vramtrace, loop, tmp_path):
    """start_loop(pairs, output, **environment): the C program, recording; its process, and what it has counted."""

    def start(pairs=PAIRS, output=None, preload=(), folder=(), **environment):
        counts = tmp_path / "counts"
        counts.write_bytes(bytes(4096))
        environment = {"VRAMTRACE_KEEP": "1MiB"} | environment
        env = vramtrace.preload_environment(
            vramtrace.interpose,
            vramtrace.simgpu / "libsimgpu.so",
            *preload,
            VRAMTRACE_OUTPUT=output or tmp_path / "job.vtr",
            **{name: value for name, value in environment.items() if value is not None},
        )
        process = subprocess.Popen([loop, counts, str(pairs), *folder], env=env, stderr=subprocess.PIPE)

        def counted():
            data = counts.read_bytes()
            return [int.from_bytes(data[at : at + 8], "little") for at in (0, 8)]

        return process, counted

    return start


def finish(process, status=0):
    _, stderr = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, stderr) == (status, b"")


def check_counts(vramtrace, recording, counted):
    report = vramtrace.json("report", recording)
    assert report["recording"]["lost_events"] == 0
    driver = report["devices"][0]["driver"]
    assert [driver["allocs"], driver["frees"]] == counted
    assert vramtrace.call("verify", recording).returncode == 0
    return report


def test_loop_is_whole(vramtrace, start_loop, tmp_path):
    with Watch(tmp_path / "job.vtr") as watch:
        process, counted = start_loop()
        finish(process)
    report = check_counts(vramtrace, tmp_path / "job.vtr", counted())
    assert report["recording"]["kept_from_ns"] and len(watch.inodes) > 2
    assert watch.most <= MIB
    assert not list((tmp_path / "job.vtr").glob("*.new"))


@pytest.mark.parametrize("number", range(6))
def test_killed_at_any_moment(vramtrace, start_loop, tmp_path, number):
    process, counted = start_loop(pairs=10**9)
    while not counted()[0]:
        time.sleep(0.001)
    time.sleep(random.Random(SEED + number).uniform(0.5, 4))
    process.kill()
    process.communicate(timeout=LIMIT_S)
    report = vramtrace.json("report", tmp_path / "job.vtr")
    allocs, frees = counted()
    driver = report["devices"][0]["driver"]
    assert report["recording"]["end"] == "killed" and report["recording"]["lost_events"] == 0
    assert allocs <= driver["allocs"] <= allocs + 1 and frees <= driver["frees"] <= frees + 1
    assert vramtrace.call("verify", tmp_path / "job.vtr").returncode == 0


@pytest.mark.parametrize("how", ["before", "middle", "after"])
@pytest.mark.parametrize("at", [0, 1, 2, 3, 7, *(pytest.param(at, marks=pytest.mark.slow) for at in (4, 5, 6, 8, 9, 10, 11))])
def test_killed_at_a_write(vramtrace, start_loop, compile_c, tmp_path, at, how):
    """At each of those by which the next file is written, and as it takes the trace's place; twice over."""
    killer = compile_c(CRASH / "kill_at_write.c", "-shared", "-fPIC", "-ldl")
    process, counted = start_loop(preload=[killer], KILL_AT_WRITE=at, KILL_HOW=how, KILL_IN="next")
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == -signal.SIGKILL
    report = vramtrace.json("report", tmp_path / "job.vtr")
    allocs, frees = counted()
    driver = report["devices"][0]["driver"]
    assert report["recording"]["lost_events"] == 0
    assert allocs <= driver["allocs"] <= allocs + 1 and frees <= driver["frees"] <= frees + 1
    done = vramtrace.call("verify", tmp_path / "job.vtr")
    assert done.returncode == 0, done.stdout


def failed_drops(vramtrace, recording, said=""):
    """How often nothing could be dropped, as the recording says."""
    (info,) = vramtrace.json("info", recording)["process_list"]
    (trace,) = vramtrace.json("verify", recording)["traces"]
    assert info["failed_drops"] == trace["failed_drops"]
    for command in ("info", "verify"):
        text = vramtrace.call(command, recording).stdout
        assert (f"{info['failed_drops']} times, the latest:" in text) == (info["failed_drops"] > 0)
        assert said in text
    return info["failed_drops"]


@pytest.fixture(scope="module")
def fault(compile_c):
    return compile_c(CRASH / "fail_calls.c", "-shared", "-fPIC", "-ldl")


@pytest.mark.parametrize("call, at", [("rename", 1), ("rename", 2), ("open", 5), ("open", 6)])
def test_calls_that_fail_for_a_while(vramtrace, start_loop, fault, tmp_path, call, at):
    """Then the oldest part is dropped later."""
    process, counted = start_loop(preload=[fault], FAIL_CALL=call, FAIL_AT=at, FAIL_WITH=5, FAIL_TIMES=1)
    finish(process)
    check_counts(vramtrace, tmp_path / "job.vtr", counted())
    assert not list((tmp_path / "job.vtr").glob("*.new"))
    assert failed_drops(vramtrace, tmp_path / "job.vtr", "Input/output error") == 1


def test_no_room_for_two_files(vramtrace, start_loop, fault, tmp_path):
    """The disk is full because the next file is on it: that is given up, and the trace goes on."""
    fail = {"FAIL_CALL": "pwrite", "FAIL_IN": "trace", "FAIL_WITH": 28, "FAIL_TIMES": 2}
    # On a busy machine not every file is on the disk when the trace is written: there are more than two of them.
    process, counted = start_loop(3 * PAIRS, preload=[fault], **fail)
    finish(process)
    report = check_counts(vramtrace, tmp_path / "job.vtr", counted())
    assert report["recording"]["kept_from_ns"]
    assert failed_drops(vramtrace, tmp_path / "job.vtr", "No space left on device") == 2


def test_disk_that_does_not_take_the_next_file(vramtrace, start_loop, fault, mount_tmpfs):
    """What the disk has refused never takes the trace's name."""
    output = mount_tmpfs("256m") / "job.vtr"
    with Watch(output) as watch:
        process, counted = start_loop(output=output, preload=[fault], FAIL_CALL="fdsync", FAIL_WITH=5)
        finish(process)
    report = check_counts(vramtrace, output, counted())
    assert report["recording"]["kept_from_ns"] is None and len(watch.inodes) == 1
    assert failed_drops(vramtrace, output, "Input/output error") > 2


def test_program_with_another_root(vramtrace, start_loop, tmp_path):
    """Where the recording lies cannot be named any more; it is dropped from all the same."""
    (tmp_path / "root").mkdir()
    process, counted = start_loop(folder=[tmp_path / "root"])
    finish(process)
    report = check_counts(vramtrace, tmp_path / "job.vtr", counted())
    assert report["recording"]["kept_from_ns"]
    assert failed_drops(vramtrace, tmp_path / "job.vtr") == 0


def test_recording_that_is_moved(vramtrace, start_loop, tmp_path):
    process, counted = start_loop()
    while not counted()[0]:
        time.sleep(0.001)
    (tmp_path / "job.vtr").rename(tmp_path / "moved.vtr")
    finish(process)
    report = check_counts(vramtrace, tmp_path / "moved.vtr", counted())
    assert report["recording"]["kept_from_ns"]
    assert failed_drops(vramtrace, tmp_path / "moved.vtr") == 0
    assert not (tmp_path / "job.vtr").exists()


def test_read_while_it_runs(vramtrace, start_loop, tmp_path):
    """Whoever reads while a file takes another's place goes on in it: nothing is lost, nothing counted twice."""
    process, counted = start_loop()
    while not counted()[0]:
        time.sleep(0.001)
    ends = []
    while process.poll() is None:
        before = counted()
        done = vramtrace.call("report", "--json", tmp_path / "job.vtr")
        after = counted()
        report = json.loads(done.stdout)
        ends.append(report["recording"]["end"])
        assert done.returncode == 0 and report["recording"]["lost_events"] == 0, done.stderr
        driver = report["devices"][0]["driver"]
        assert before[0] <= driver["allocs"] <= after[0] + 1
        assert before[1] <= driver["frees"] <= after[1] + 1
    finish(process)
    assert "running" in ends
    check_counts(vramtrace, tmp_path / "job.vtr", counted())


def test_forked_workers(vramtrace, record):
    """Each process has its own limit."""
    recorded = record("fork_workers.py", options=["--keep", "1MiB"])
    report = vramtrace.json("report", recorded.path)
    told = {line["pid"]: line for line in map(json.loads, recorded.stdout.splitlines())}
    assert {device["pid"]: device["tensor"]["peak_bytes"] for device in report["devices"]} == {
        pid: line["bytes"] for pid, line in told.items()
    }


@pytest.fixture
def mount_tmpfs(tmp_path):
    """mount_tmpfs(size): a small file system for recordings."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = []

    def mount(size):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "keep", place], capture_output=True)
        if done.returncode:
            pytest.skip("no file system can be mounted here")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", place], check=True)


def fill(place, leave):
    """Take all but so many bytes of a file system."""
    free = os.statvfs(place)
    with open(place / "other", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_bsize - leave)


@pytest.mark.parametrize("leave", [2 * MIB, 3 * MIB])
def test_little_room_on_the_disk(vramtrace, start_loop, mount_tmpfs, leave):
    """Less than a tenth is free, at the start or later: the last part is kept, though nobody asked for it."""
    place = mount_tmpfs("24m")
    fill(place, leave)
    process, counted = start_loop(output=place / "job.vtr", VRAMTRACE_KEEP=None)
    finish(process)
    report = check_counts(vramtrace, place / "job.vtr", counted())
    (info,) = vramtrace.json("info", place / "job.vtr")["process_list"]
    assert "of the disk was free" in info["info"]["keep"] and report["recording"]["kept_from_ns"]


def test_room_comes_back(vramtrace, start_loop, mount_tmpfs):
    """With a tenth free again there is no limit any more."""
    place = mount_tmpfs("24m")
    fill(place, 2 * MIB)
    process, counted = start_loop(output=place / "job.vtr", pairs=10**9, VRAMTRACE_KEEP=None)
    with Watch(place / "job.vtr") as watch:
        while len(watch.inodes) < 2:
            time.sleep(0.01)
        assert watch.most < 2 * MIB
        (place / "other").unlink()
        while watch.most < 4 * MIB:
            time.sleep(0.01)
            assert process.poll() is None
    process.kill()
    process.communicate(timeout=LIMIT_S)
    report = vramtrace.json("report", place / "job.vtr")
    assert report["recording"]["lost_events"] == 0 and report["recording"]["kept_from_ns"]


def test_no_room_at_all(vramtrace, start_loop, mount_tmpfs):
    """When not even the budget fits, recording goes on as long as it can, and stops as without one."""
    place = mount_tmpfs("20m")
    process, counted = start_loop(output=place / "job.vtr", VRAMTRACE_KEEP="1GiB", pairs=400_000)
    while not list(place.glob("job.vtr/*.vtr")):
        time.sleep(0.01)
    fill(place, 65536)
    finish(process)
    (info,) = vramtrace.json("info", place / "job.vtr")["process_list"]
    assert info["stopped"] == "disk full"
    report = vramtrace.json("report", place / "job.vtr")
    assert 0 < report["devices"][0]["driver"]["allocs"] < counted()[0]


# ---- options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, said",
    [
        (["--keep", "0"], "has no unit"),
        (["--keep", "2000000"], "has no unit"),
        (["--keep", "0MiB"], "at least 1.00 MiB"),
        (["--keep", "10KiB"], "at least 1.00 MiB"),
        (["--keep", "much"], "takes a size"),
        (["--keep", ""], "takes a size"),
        (["--keep-steps", "0"], "takes a number of 1 or more"),
        (["--keep-steps", "-3"], "takes a number of 1 or more"),
        (["--keep-steps", "9999999999"], "takes a number of 1 or more"),
        (["--max-size", "10KiB"], "at least 1.00 MiB"),
        (["--keep", "2GiB", "--max-size", "3GiB"], "exclude each other"),
        (["--keep-steps", "5", "--max-size", "3GiB"], "exclude each other"),
        (["--keep", "2GiB", "--no-record"], "leaves nothing to keep"),
    ],
)
def test_options_that_cannot_be(vramtrace, tmp_path, options, said):
    done = vramtrace.call("run", "--simulate", "h100", "-o", tmp_path / "job.vtr", *options, "--", "true")
    assert done.returncode == 125
    assert said in done.stderr and not (tmp_path / "job.vtr").exists()


@pytest.mark.parametrize("name, value", [("KEEP", "10KiB"), ("KEEP", "1e9"), ("KEEP_STEPS", "0"), ("KEEP_STEPS", "x")])
def test_variables_that_cannot_be(vramtrace, start_loop, tmp_path, name, value):
    """A program never fails for them: they set nothing, and the recording says so."""
    process, counted = start_loop(pairs=3000, **({"VRAMTRACE_KEEP": None} | {f"VRAMTRACE_{name}": value}))
    finish(process)
    check_counts(vramtrace, tmp_path / "job.vtr", counted())
    (info,) = vramtrace.json("info", tmp_path / "job.vtr")["process_list"]
    assert any(f"VRAMTRACE_{name}" in note for note in info["notes"])


def test_max_size(vramtrace, start_loop, loop, tmp_path):
    """All of it while it fits, and never more."""
    counts = tmp_path / "counts"
    for pairs, is_whole in ((30_000, True), (PAIRS, False)):
        counts.write_bytes(bytes(4096))
        output = tmp_path / f"{pairs}.vtr"
        with Watch(output) as watch:
            argv = vramtrace.run_argv(output, [loop, counts, str(pairs)], options=["--max-size", "1MiB"])
            subprocess.run([str(word) for word in argv], check=True, timeout=LIMIT_S, env=program_environment())
        report = vramtrace.json("report", output)
        assert report["devices"][0]["driver"]["allocs"] == pairs
        assert (report["recording"]["kept_from_ns"] is None) == is_whole
        assert watch.most <= MIB

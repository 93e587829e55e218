# SPDX-License-Identifier: MIT
"""Where events lie until they are written: nobody can kill the program through it, and kill -9 loses nothing.

Each place that rings can have (--rings) is truncated by others, and its processes are killed at once; file systems on
which memory that was allocated once is not there for good are passed over; more threads than rings lose nothing.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from harness import LIMIT_S, program_environment, trace_files
from shared_segments import segments

PROGRAMS = Path(__file__).parent / "programs"
PAIRS = 41_000  # of pauses_for_vandals.c
PROMISE = {
    "shm": "shared memory of the machine: survives kill -9, not a power cut",
    "memory": "memory that 'run' holds, too: survives kill -9 while 'run' lives",
    "folder": "ring file beside the trace: survives kill -9",
}
STORAGE = {"shm": "shared", "auto": "shared", "memory": "sealed", "folder": "beside"}
MIB = 1 << 20


@pytest.fixture(scope="module")
def build(compile_c, cuda_flags):
    return lambda name: compile_c(PROGRAMS / f"{name}.c", *cuda_flags, "-lpthread")


@pytest.fixture(autouse=True)
def shared_memory():
    """Where the machine has none that outlives its processes, it is not what these tests take it for."""
    forced = Path("/proc/sys/kernel/shm_rmid_forced")
    if not Path("/proc/sysvipc/shm").exists() or (forced.exists() and forced.read_text().strip() != "0"):
        pytest.skip("this machine has no shared memory that outlives its processes")


def start(vramtrace, tmp_path, rings, program, **options):
    argv = vramtrace.run_argv(tmp_path / "job.vtr", program, options=["--rings", rings])
    return subprocess.Popen([*map(str, argv)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=program_environment({"TMPDIR": str(tmp_path)}), **options)  # fmt: skip


def process_of(recording):
    (trace,) = trace_files(recording)
    return int(trace.name.rsplit(".", 3)[1])


def within_reach(recording, tmp_path):
    """What a script could truncate: files of the recorder in any folder, and its memory by the names in /proc."""
    yield from recording.glob("*.ring")
    yield from tmp_path.glob("vramtrace-*")
    yield from Path("/dev/shm").glob("vramtrace*")
    for descriptor in Path(f"/proc/{process_of(recording)}/task").glob("*/fd/*"):
        with contextlib.suppress(OSError):
            if "vramtrace" in os.readlink(descriptor):
                yield descriptor


def vandalise(vramtrace, program, tmp_path, rings, more=(), length=4096):
    """Truncate all that is within reach while the program runs. Returns how it ended, and how many could be truncated."""
    truncated = 0
    with start(vramtrace, tmp_path, rings, [program]) as process:
        assert process.stdout.readline() == "ready\n"
        (found,) = vramtrace.json("info", tmp_path / "job.vtr")["process_list"]
        assert found["storage"] == STORAGE[rings]
        for path in [*within_reach(tmp_path / "job.vtr", tmp_path), *more]:
            with contextlib.suppress(PermissionError):
                os.truncate(path, length)
                truncated += 1
        out, err = process.communicate("go\n", timeout=LIMIT_S)
    return process.returncode, out, err, truncated


@pytest.mark.parametrize("rings, row", [("auto", None), ("shm", "truncated-shm"), ("memory", "truncated-memory")])
def test_truncated(vramtrace, build, tmp_path, rings, row, reliability):
    status, out, err, truncated = vandalise(vramtrace, build("pauses_for_vandals"), tmp_path, rings)
    assert (status, out, err, truncated) == (0, "done\n", "", 0)
    driver = vramtrace.whole_report(tmp_path / "job.vtr")["devices"][0]["driver"]
    assert (driver["allocs"], driver["frees"]) == (PAIRS, PAIRS)
    if row:
        promise = vramtrace.call("info", tmp_path / "job.vtr").stdout
        assert PROMISE[rings] in promise
        reliability(
            row,
            program=f"somebody truncates all that the recorder has by name in mid-run (`--rings {rings}`)",
            ends="as without it: nothing can be truncated",
            lost="none",
            said=f"`info`: {PROMISE[rings]}",
        )


def test_truncated_in_the_folder(vramtrace, build, tmp_path, reliability):
    """The one place of which that is not true, and it is said."""
    status, out, _, truncated = vandalise(vramtrace, build("pauses_for_vandals"), tmp_path, "folder")
    assert (status, out, truncated) == (-signal.SIGBUS, "", 1)
    said = vramtrace.call("report", tmp_path / "job.vtr")
    assert said.returncode == 2 and "its ring file is cut short" in said.stderr
    reliability(
        "truncated-folder",
        program="the same with the ring file in the recording's folder (`--rings folder`), by root",
        ends="killed by SIGBUS",
        lost="what was not yet written",
        said="`report`: its ring file is cut short",
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write what nobody may write")
def test_the_ring_file_cannot_be_written(vramtrace, build, tmp_path):
    status, out, _, truncated = vandalise(vramtrace, build("pauses_for_vandals"), tmp_path, "folder")
    assert (status, out, truncated) == (0, "done\n", 0)


def test_truncated_trace(vramtrace, build, tmp_path, reliability):
    """The trace itself is cut short: the program goes on, and the recording says what it lacks."""

    class Later:
        """Its traces, when they are there."""

        def __iter__(self):
            return iter(trace_files(tmp_path / "job.vtr"))

    status, out, _, truncated = vandalise(vramtrace, build("pauses_for_vandals"), tmp_path, "auto", Later(), 1000)
    assert (status, out, truncated) == (0, "done\n", 1)
    verified = vramtrace.call("verify", tmp_path / "job.vtr")
    assert verified.returncode == 2 and "damaged" in verified.stdout + verified.stderr
    reliability(
        "truncated-trace",
        program="somebody truncates the trace itself in mid-run",
        ends="as without it",
        lost="what was cut off, counted",
        said="`verify`: damaged",
    )


KILLED_PAIRS = 5000
KILLS = [
    ("shm", "program", "killed-program-shm"),
    ("shm", "both", "killed-both-shm"),
    ("memory", "program", "killed-program-memory"),
    ("memory", "both", "killed-both-memory"),
    ("folder", "program", "killed-program-folder"),
    ("folder", "both", "killed-both-folder"),
]


@pytest.mark.parametrize("rings, who, row", KILLS)
def test_killed(vramtrace, build, tmp_path, rings, who, row, reliability):
    """SIGKILL of the program, and of `run` with it, after it has closed all descriptors."""
    with start(vramtrace, tmp_path, rings, [build("kills_itself"), who, KILLED_PAIRS]) as process:
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == -signal.SIGKILL
    (found,) = vramtrace.json("info", tmp_path / "job.vtr")["process_list"]
    assert found["storage"] == STORAGE[rings]
    report = vramtrace.json("report", tmp_path / "job.vtr")
    keeps_all = (rings, who) != ("memory", "both")
    assert report["recording"]["complete"] == keeps_all
    assert report["recording"]["end"] == "killed"
    if keeps_all:
        driver = report["devices"][0]["driver"]
        assert (driver["allocs"], driver["frees"]) == (KILLED_PAIRS, KILLED_PAIRS)
        assert report["recording"]["lost_events"] == 0
        assert vramtrace.call("verify", tmp_path / "job.vtr").returncode == 0
    else:
        assert "was memory only" in vramtrace.call("verify", tmp_path / "job.vtr").stderr
        assert 'not whole: figures are "at least"' in vramtrace.call("report", tmp_path / "job.vtr").stdout
    assert segments(tmp_path) == set(), "what is read gives its memory back"
    reliability(
        row,
        program=("kill -9 of the program" if who == "program" else "kill -9 of program and `run` at once")
        + f" after it has closed all descriptors (`--rings {rings}`)",
        ends="as without it",
        lost="none" if keeps_all else "what was not yet written",
        said="`report`: complete" if keeps_all else '`report`: not whole: figures are "at least"',
    )


def test_workers_are_killed(vramtrace, build, tmp_path):
    """`run` holds the memory of each process until its trace is complete, and no longer."""
    with start(vramtrace, tmp_path, "memory", [build("kills_itself"), "program", 1000, 12]) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out, err) == (0, "", "")
    report = vramtrace.json("report", tmp_path / "job.vtr")
    assert len(report["process_list"]) == 12 and report["recording"]["complete"]
    assert sum(device["driver"]["allocs"] for device in report["devices"]) == 12_000


def test_nobody_comes_to_read(vramtrace, build, tmp_path):
    """The rings of a killed program stay until then; a program that is run later leaves them alone at first."""
    with start(vramtrace, tmp_path, "shm", [build("kills_itself"), "both", 100]) as process:
        process.communicate(timeout=LIMIT_S)
    (left,) = segments(tmp_path)
    vramtrace.record(tmp_path / "other.vtr", ["true"])
    assert left in segments(tmp_path)
    assert vramtrace.json("report", tmp_path / "job.vtr")["recording"]["complete"]
    assert left not in segments(tmp_path)


@pytest.fixture
def btrfs(tmp_path):
    """A folder on btrfs, which copies on write; skipped where none can be had."""
    if os.geteuid() or not shutil.which("mkfs.btrfs"):
        pytest.skip("needs root and mkfs.btrfs")
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(256 * MIB)
    subprocess.run(["mkfs.btrfs", "-q", image], check=True, capture_output=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount btrfs: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_copy_on_write(vramtrace, build, btrfs, tmp_path, reliability):
    """A full btrfs breaks what it promised to fallocate: rings are never there, also if that is asked for."""
    program = build("pauses_for_vandals")
    argv = vramtrace.run_argv(btrfs / "job.vtr", [program], options=["--rings", "folder"])
    environment = program_environment({"TMPDIR": str(btrfs)})
    with subprocess.Popen([*map(str, argv)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=environment) as process:  # fmt: skip
        assert process.stdout.readline() == "ready\n"
        subprocess.run(["dd", "if=/dev/zero", f"of={btrfs}/filler", "bs=1M"], capture_output=True)
        out, err = process.communicate("go\n", timeout=LIMIT_S)
    assert (process.returncode, out, err) == (0, "done\n", "")
    (found,) = vramtrace.json("info", btrfs / "job.vtr")["process_list"]
    assert found["storage"] == "shared"
    (btrfs / "filler").unlink()
    report = vramtrace.json("report", btrfs / "job.vtr")  # what could not be written lay in the rings, and goes there now
    assert report["recording"]["lost_events"] == 0
    assert segments(btrfs) == set()
    reliability(
        "copy-on-write",
        program="the recording lies on btrfs, which is full from mid-run on (`--rings folder`)",
        ends="as without it",
        lost="none, or what came after the disk was full",
        said=f"`info`: {PROMISE['shm']}",
    )


THREADS = 1500
EVENTS_OF_A_THREAD = 40


@pytest.mark.parametrize("rings", ["auto", "memory"])
def test_more_threads_than_rings(vramtrace, build, tmp_path, rings, reliability):
    """None of their events is lost, each has its thread, and they take a fraction of the memory of so many rings."""
    with start(vramtrace, tmp_path, rings, [build("many_threads"), THREADS]) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (0, "")
    driver = vramtrace.whole_report(tmp_path / "job.vtr")["devices"][0]["driver"]
    assert driver["allocs"] == driver["frees"] == THREADS * EVENTS_OF_A_THREAD // 2
    assert int(out) < THREADS * 1024 // 2
    dump = vramtrace.call("dump", "--json", "--kind", "driver_alloc,driver_free", tmp_path / "job.vtr").stdout
    threads = re.findall(r'"tid": ?(\d+)', dump)
    counts = {thread: threads.count(thread) for thread in set(threads)}
    assert sorted(counts.values())[-THREADS:] == [EVENTS_OF_A_THREAD] * THREADS  # and main's own
    reliability(
        "many-threads",
        program=f"{THREADS:,} threads at once, {EVENTS_OF_A_THREAD} events each",
        ends="as without it",
        lost="none",
        said="`report`: complete",
    )

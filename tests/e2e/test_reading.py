# SPDX-License-Identifier: MIT
"""Traces that are long, come through a pipe, or are still being written: read all the same, in constant memory."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from harness import LIMIT_S, TREE, program_environment, python

GOLDEN = sorted((TREE / "tests" / "golden" / "v1").glob("*.vtr"))
EVENTS = (1_000_000, 2_000_000, 8_000_000, 32_000_000)
HOLE_BYTES = 2 << 30
FRAME_BYTES_MAX = 128 << 10
WINDOW_KIB = 1024
MOST_MORE_KIB = 1024  # of memory, however much longer the trace: what the C library keeps or gives back


@pytest.fixture(scope="module")
def trace_repeat(vramtrace, compile_c):
    build = vramtrace.program.parent
    return compile_c(TREE / "bench" / "trace_repeat.c", "-O2", f"-I{TREE}", build / "libtracefmt.a", "-lzstd")


@pytest.fixture(scope="module")
def one_trace(recorded):
    (trace,) = recorded("mlp.py").path.glob("*.vtr")
    return trace


@pytest.fixture(scope="module")
def long_trace(trace_repeat, one_trace, tmp_path_factory):
    """long_trace(events): a trace like that of the job, so many events long."""
    folder = tmp_path_factory.mktemp("long")

    def make(events):
        path = folder / f"{events}.vtr"
        if not path.exists():
            subprocess.run([trace_repeat, one_trace, path, str(events)], check=True, stdout=subprocess.DEVNULL)
        return path

    return make


def summary(vramtrace, path):
    (told,) = json.loads(vramtrace.call("verify", "--json", path).stdout)["traces"]
    return told


@pytest.fixture(scope="module")
def peak_kib(vramtrace, compile_c):
    """peak_kib(command, argument...): the most memory that vramtrace held, and its exit status."""
    most_memory = compile_c(TREE / "tests" / "e2e" / "most_memory.c", "-O1")

    def measure(*arguments):
        done = subprocess.run([most_memory, vramtrace.program, *arguments], check=True, capture_output=True, text=True)
        return tuple(map(int, done.stdout.split()))

    return measure


@pytest.mark.parametrize("command", ["report", "timeline", "peak", "verify"])
def test_memory_does_not_follow_events(peak_kib, long_trace, command):
    held = {nr: peak_kib(command, long_trace(nr)) for nr in EVENTS}
    assert all(status == 0 for _, status in held.values())
    first, second, third, fourth = (most for most, _ in held.values())
    # The two short traces do not fill the reader's window (TFMT_READER_WINDOW, 1 MiB); the two long ones do.
    assert 0 < second < first + MOST_MORE_KIB, held
    assert 0 < fourth < third + MOST_MORE_KIB, held
    assert fourth < first + MOST_MORE_KIB + WINDOW_KIB, held


def test_memory_does_not_follow_damage(vramtrace, peak_kib, long_trace, tmp_path):
    """Gigabytes of zeros between two halves of a trace: skipped, said, and none of it kept."""
    whole = long_trace(EVENTS[0]).read_bytes()
    middle = len(whole) // 2
    holed = tmp_path / "holed.vtr"
    with open(holed, "wb") as file:
        file.write(whole[:middle])
        file.seek(HOLE_BYTES, os.SEEK_CUR)
        file.write(whole[middle:])
    short, _ = peak_kib("verify", long_trace(EVENTS[0]))
    long, status = peak_kib("verify", holed)
    assert status == 2
    # As above: the hole fills the reader's window, the short trace does not.
    assert 0 < long < short + MOST_MORE_KIB + WINDOW_KIB, (short, long)
    (told,) = json.loads(vramtrace.call("verify", "--json", holed).stdout)["traces"]
    assert HOLE_BYTES <= told["damaged_bytes"] < HOLE_BYTES + FRAME_BYTES_MAX
    assert told["events"] + told["lost_events"] == summary(vramtrace, long_trace(EVENTS[0]))["events"]


def through_pipe(vramtrace, path, *arguments):
    """A command whose standard input is a pipe that `path` is written to."""
    with open(path, "rb") as file, subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE) as cat:
        done = vramtrace.call(*arguments, stdin=cat.stdout)
        cat.stdout.close()
    return done


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_pipe_reads_as_the_file(vramtrace, path, tmp_path):
    alone = tmp_path / "alone.vtr"  # without its ring file, which a pipe cannot have
    alone.write_bytes(path.read_bytes())
    for name in ("-", "/dev/stdin"):
        file, pipe = vramtrace.call("dump", alone), through_pipe(vramtrace, path, "dump", name)
        assert pipe.stdout == file.stdout
        assert pipe.returncode == file.returncode
        assert pipe.stderr == file.stderr.replace(str(alone), "/dev/stdin")


def test_a_long_pipe_reads_as_the_file(vramtrace, long_trace):
    path = long_trace(EVENTS[1])
    file, pipe = vramtrace.call("report", path), through_pipe(vramtrace, path, "report", "-")
    assert pipe.returncode == 0
    assert pipe.stdout.strip() == file.stdout[: file.stdout.index("\nnext: ")].strip()


def test_an_empty_pipe_is_told(vramtrace):
    done = through_pipe(vramtrace, os.devnull, "report", "-")
    assert done.returncode == 2
    assert "the file is empty" in done.stderr


def test_a_named_pipe_waits_for_its_writer(vramtrace, tmp_path):
    """Nobody writes to it when it is opened: it is not empty, it is early. In a folder it is no recording."""
    path, pipe = GOLDEN[0], tmp_path / "pipe.vtr"
    os.mkfifo(pipe)
    waiting = subprocess.Popen([vramtrace.program, "dump", pipe], stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.2)
    pipe.write_bytes(path.read_bytes())
    assert waiting.communicate(timeout=LIMIT_S)[0] == through_pipe(vramtrace, path, "dump", "-").stdout
    done = vramtrace.call("report", tmp_path)
    assert done.returncode == 2 and "pipe.vtr" not in done.stderr


def test_reading_while_it_is_written(vramtrace, tmp_path):
    """Each look at a running job is whole, and holds no fewer events than the one before."""
    output = tmp_path / "job.vtr"
    argv = vramtrace.run_argv(output, python("alloc_loop.py", "--limit", "300000"))
    job = subprocess.Popen(list(map(str, argv)), env=program_environment(), stdout=subprocess.DEVNULL,
                           stdin=subprocess.DEVNULL)
    looks = []
    end = time.monotonic() + LIMIT_S
    while job.poll() is None and time.monotonic() < end:
        if list(output.glob("*.vtr")):
            looks.append(vramtrace.call("verify", "--json", output))
            looks.append(vramtrace.call("report", "--json", output))
    assert job.wait(LIMIT_S) == 0
    assert len(looks) > 3
    for look in looks:
        assert look.returncode == 0 and not look.stderr, look.stdout + look.stderr
    counts = [json.loads(look.stdout)["traces"][0]["events"] for look in looks[::2]]
    assert counts == sorted(counts)
    assert summary(vramtrace, output)["events"] >= max(600_000, counts[-1])

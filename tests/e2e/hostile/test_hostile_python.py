# SPDX-License-Identifier: MIT
"""Python programs that are hard on whoever reads their frames without the GIL: each frame is right, or said not to be."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from harness import LIMIT_S, program_environment, trace_files
from interpreters import installed

PROGRAMS = Path(__file__).parent / "programs"
INTERPRETERS = {version: path for path, version in reversed(installed().items()) if (3, 8) <= version <= (3, 14)}
each_interpreter = pytest.mark.parametrize("version", sorted(INTERPRETERS), ids=lambda v: "%d.%d" % v)


def recorded(vramtrace, tmp_path, version, program, *arguments):
    """The recording and the events of a program that must end well and print nothing unexpected."""
    done = vramtrace.record(tmp_path / "o.vtr", [INTERPRETERS[version], PROGRAMS / program, *arguments])
    assert (done.status, done.stderr) == (0, "")
    return done, vramtrace.events(done.path)


def names(event):
    """The functions of its stack, newest first; None for frames that are left out."""
    return [frame["function"] and frame["function"].rpartition(".")[2] for frame in event["python"] or ()]


def by_size(events, size):
    return [event for event in events if event["kind"] == "driver_alloc" and event["size"] == size]


@each_interpreter
def test_sub_interpreters(vramtrace, tmp_path, reliability, version):
    done, events = recorded(vramtrace, tmp_path, version, "subinterpreters.py")
    inside = by_size(events, 8192)
    assert len(inside) == 9 * 20
    if version >= (3, 12):
        assert {tuple(names(event)) for event in inside} == {("inside",) * 21 + ("<module>",)}
    else:
        # The frames of what has entered the sub-interpreter, and that newer ones are not there.
        assert all(names(event)[:2] == [None, "visit"] for event in inside)
        assert all(event["python"][0]["cut"] is None for event in inside)
    for size in (4096, 12288, 16384):
        outside = by_size(events, size)
        assert outside and all(names(event)[0] == "outside" for event in outside)
    vramtrace.whole_report(done.path)
    if version in ((3, 11), (3, 12)):
        reliability("sub-interpreters-before-312" if version == (3, 11) else "sub-interpreters-since-312",
                    program="sub-interpreters allocate on several threads" + (", Python 3.8 to 3.11" if version == (3, 11) else ", Python 3.12 and later"), ends="as untraced: 0",
                    lost="0", said="frames of the caller, and that newer ones are missing" if version == (3, 11)
                    else "frames of the sub-interpreter")


@each_interpreter
def test_deep_stacks(vramtrace, tmp_path, reliability, version):
    done, events = recorded(vramtrace, tmp_path, version, "deep.py")
    said = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    allocations = {event["size"]: event for event in events if event["kind"] == "driver_alloc"}
    assert len(said) == 500
    for size, nr_frames in said:
        frames = allocations[size]["python"]
        cut = [frame["cut"] for frame in frames if "cut" in frame and frame["function"] is None]
        assert len(frames) - len(cut) + sum(cut) == nr_frames
        assert len(cut) == (nr_frames > 1040)
        assert names(allocations[size])[:2] == ["leaf", "deep"]
        assert names(allocations[size])[-4:] == ["work", "run", "_bootstrap_inner", "_bootstrap"]
    if version == (3, 11):
        reliability("deep-stacks", program="allocations under up to 9,000 Python frames", ends="as untraced: 0", lost="0",
                    said="the newest 768 frames and more, the oldest 16, how many are left out between")


def interpreter_fails_alone(vramtrace, compile_c, tmp_path, version, status):
    """Whether daemons.py ends so without the recorder, if only the end of the process takes 50 ms: CPython 3.10.13's
    take_gil() writes to an interpreter that is gone when a daemon thread has waited for it for 5 ms more."""
    slow_exit = compile_c(PROGRAMS / "slow_exit.c", "-shared", "-fPIC")
    argv = [INTERPRETERS[version], PROGRAMS / "daemons.py", compile_c(PROGRAMS / "spin.c", "-shared", "-fPIC")]
    options = {"env": program_environment({"LD_PRELOAD": str(slow_exit)}), "cwd": tmp_path, "timeout": LIMIT_S}
    command = [vramtrace.program, "run", "-q", "--no-record", "--simulate", "h100", "--", *argv]
    return any(subprocess.run(command, **options).returncode == status for _ in range(200))


@each_interpreter
def test_daemon_threads_at_finalisation(vramtrace, compile_c, tmp_path, reliability, version):
    spin = compile_c(PROGRAMS / "spin.c", "-shared", "-fPIC")
    for i in range(4):
        done = vramtrace.record(tmp_path / f"{i}.vtr", [INTERPRETERS[version], PROGRAMS / "daemons.py", spin])
        assert (done.stdout, done.stderr) == ("", "")
        assert done.status == 0 or interpreter_fails_alone(vramtrace, compile_c, tmp_path, version, done.status)
        assert trace_files(done.path)
    if version == (3, 11):
        reliability("daemon-threads", program="daemon threads allocate without the GIL while the interpreter finalises",
                    ends="as untraced: 0", lost="counted", said="frames that are read then are not believed")


def test_generated_code(vramtrace, record, reliability):
    done = record(PROGRAMS / "generated.py")
    assert (done.status, done.stderr) == (0, "")
    events = [event for event in vramtrace.events(done.path) if event["kind"] == "tensor_alloc"]
    checked = 0
    for event in events:
        number = event["shape"][0] - 100
        newest = event["python"][0]
        if number >= 0:
            assert (newest["function"], newest["file"], newest["line"]) == (
                f"made_{number}", f"made_{number}.py", 2 + number % 50)
            caller = "generator" if number < 500 else "coroutine"
            assert names(event)[1] == caller
            checked += 2
    assert checked == 2 * 520
    found = Counter((event["shape"][0], *names(event)) for event in events if event["shape"][0] < 100)
    assert found[10, "__del__", "<module>"] == 100
    assert found[11, "__init__", "<module>"] == 100
    assert found[12, "<lambda>", "wrapper", "<module>"] == 100
    reliability("generated-code", program="720 code objects and more at reused addresses, generators, coroutines, destructors",
                ends="as untraced: 0", lost="0", said=f"{checked + 700} frames checked, none wrong")


def stack_of_thread(n):
    """The functions from the newest on that stand on the stack of that thread of short_threads.py, cuts left out."""
    return [f"leaf_{n}"] + [f"turn_{n}"] * (n % 40 + 1) + ([f"deep_{n}"] * 1201 if n % 10 == 0 else []) + ["work", "run"]


@each_interpreter
def test_stacks_of_short_threads(vramtrace, tmp_path, reliability, version):
    """New threads use stack caches in turn: no frame of another thread comes into a stack."""
    done, events = recorded(vramtrace, tmp_path, version, "short_threads.py")
    vramtrace.whole_report(done.path)
    for n in range(160):
        of_thread = [event for event in events if event["kind"] == "driver_alloc" and event["size"] == 4096 * (n + 1)]
        assert len(of_thread) == 10
        for event in of_thread:
            found, wanted = [name for name in names(event) if name], stack_of_thread(n)
            if n % 10:
                assert found[: len(wanted)] == wanted
            else:  # some frames of the middle are left out
                assert found[:700] == wanted[:700] and found[-4:-2] == wanted[-2:]
    if version == (3, 11):
        reliability("short-threads", program="160 threads, 80 at a time, each with functions and a stack of its own",
                    ends="as untraced: 0", lost="0", said="1,600 stacks checked, none wrong")

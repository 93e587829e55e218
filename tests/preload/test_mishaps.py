# SPDX-License-Identifier: MIT
"""What a recorded process may do to itself: many threads, kills, cancellation, closed descriptors, forks."""
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).absolute()


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    out = tmp_path_factory.mktemp("programs")
    cc = [os.environ.get("CC", "gcc"), "-O1", "-g"]
    driver = out / "libcuda.so.1"
    subprocess.run([*cc, "-shared", "-fPIC", HERE / "fake_driver.c", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1",
                    "-o", driver], check=True)
    for name in ("storm", "mishaps"):
        subprocess.run([*cc, HERE / f"{name}.c", "-o", out / name, driver, f"-Wl,-rpath,{out}", "-lpthread"], check=True)
    return out


def environment(recording):
    return dict(os.environ, LD_PRELOAD=str(BUILD / "libinterpose.so"), VRAMTRACE_OUTPUT=str(recording),
                VRAMTRACE_JOB="test")


def report(recording):
    out = subprocess.run([BUILD / "vramtrace", "report", "--json", recording], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def total(found):
    """The calls that were recorded or lost: all events but each process's context, which its first call made known."""
    return found["recording"]["events"] + found["recording"]["lost_events"] - len(found["process_list"])


def mishap(programs, tmp_path, what, **more):
    result = subprocess.run([programs / "mishaps", what], env=environment(tmp_path / "o.vtr"), capture_output=True,
                            text=True, timeout=120, **more)
    assert result.stderr == ""
    return result, report(tmp_path / "o.vtr")


def calls(result):
    return int(result.stdout.rsplit("calls ", 1)[1])


def counted(path):
    numbers = struct.unpack(f"{path.stat().st_size // 8}Q", path.read_bytes())
    return sum(numbers[0::2]), sum(numbers[1::2])


@pytest.mark.parametrize("how, threads, pairs", [("threads", 64, 5000), ("threads", 200, 500), ("churn", 2000, 2)])
def test_every_event_is_recorded_or_counted_as_lost(programs, tmp_path, how, threads, pairs):
    subprocess.run([programs / "storm", tmp_path / "counts", how, str(threads), str(pairs)],
                   env=environment(tmp_path / "o.vtr"), check=True, capture_output=True, timeout=120)
    found = report(tmp_path / "o.vtr")
    said = 0 if found["recording"]["complete"] else found["recording"]["lost_events"]
    made = 2 * threads * pairs
    # That events were dropped is an event in the trace, too.
    assert made <= total(found) <= made + said


@pytest.fixture
def memory_path(tmp_path):
    """A folder in memory, where there is one: hooks do not wait for ever for a disk that others keep busy."""
    shared = pathlib.Path("/dev/shm")
    if not os.access(shared, os.W_OK) or shutil.disk_usage(shared).free < 64 << 20:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="vramtrace-test-", dir=shared) as folder:
        yield pathlib.Path(folder)


@pytest.mark.parametrize("seed", range(5))
def test_a_kill_loses_nothing_but_calls_in_flight(programs, memory_path, seed):
    """Few threads at full speed; the rings hold what the drain had not written."""
    child = subprocess.Popen([programs / "storm", memory_path / "counts", "threads", "3", "100000000"],
                             env=environment(memory_path / "o.vtr"), stdout=subprocess.DEVNULL)
    time.sleep(0.2 + random.Random(seed).random())
    child.send_signal(signal.SIGKILL)
    child.wait()
    begun, finished = counted(memory_path / "counts")
    found = report(memory_path / "o.vtr")
    assert finished <= total(found) <= begun
    assert found["recording"]["lost_events"] == 0
    assert found["recording"]["end"] == "killed"


def test_a_hook_is_no_cancellation_point(programs, tmp_path):
    result, found = mishap(programs, tmp_path, "cancel")
    assert "finished 16 of 16" in result.stdout
    assert total(found) >= calls(result)


def test_errno_is_untouched(programs, tmp_path):
    result, _ = mishap(programs, tmp_path, "errno")
    assert result.stdout.startswith("4242 4242 4242\n")


def test_calls_from_a_signal_handler_are_recorded(programs, tmp_path):
    result, found = mishap(programs, tmp_path, "handler")
    assert found["recording"]["complete"]
    assert total(found) == calls(result)


@pytest.mark.parametrize("how", ["async", "jump", "context"])
def test_hooks_that_are_left_in_the_middle(programs, tmp_path, how):
    """Cancelled at any instruction, or left by a jump: one event may be missing each time, and is counted; no more."""
    result, found = mishap(programs, tmp_path, how)
    assert total(found) >= calls(result)
    assert found["recording"]["lost_events"] <= 60


def test_a_coroutine_that_interrupts_a_hook(programs, tmp_path):
    """What a handler's switch of stacks interrupts goes on later; none of the two disturbs the other's events."""
    result, found = mishap(programs, tmp_path, "coroutine")
    assert found["recording"]["lost_events"] <= 80
    assert found["recording"]["events"] >= calls(result)


def test_a_program_that_closes_all_descriptors(programs, tmp_path):
    result, found = mishap(programs, tmp_path, "close")
    assert "next descriptor 67" in result.stdout
    assert found["recording"]["complete"]
    assert total(found) == calls(result)


def test_a_failed_exec_changes_nothing(programs, tmp_path):
    result, found = mishap(programs, tmp_path, "exec")
    assert "No such file or directory" in result.stdout
    assert (found["recording"]["end"], found["recording"]["complete"]) == ("exit", True)
    assert total(found) == calls(result)


def test_fork_children_have_traces_of_their_own(programs, tmp_path):
    result, found = mishap(programs, tmp_path, "children")
    assert "child: status" not in result.stdout
    assert len(list((tmp_path / "o.vtr").glob("*.vtr"))) == 7
    assert not list((tmp_path / "o.vtr").glob("*.ring"))
    assert found["recording"]["complete"]
    assert total(found) == calls(result) + 6 * 50


def test_exit_while_threads_allocate(programs, tmp_path):
    result, found = mishap(programs, tmp_path, "exit")
    assert result.returncode == 3
    assert found["recording"]["end"] == "exit"


def test_a_thread_of_an_exit_handler(programs, tmp_path):
    _, found = mishap(programs, tmp_path, "atexit")
    assert total(found) == 40


def test_a_limit_on_file_size_stops_recording_only(programs, tmp_path):
    """Ring file and trace hit RLIMIT_FSIZE: no SIGXFSZ reaches the program."""
    shell = f"ulimit -f 64; exec {programs}/storm {tmp_path}/counts threads 2 50000"
    result = subprocess.run(["bash", "-c", shell], env=environment(tmp_path / "o.vtr"), capture_output=True, text=True,
                            timeout=120)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_small_stack_limit(programs, tmp_path):
    shell = f"ulimit -s 128; exec {programs}/mishaps exec"
    subprocess.run(["bash", "-c", shell], env=environment(tmp_path / "o.vtr"), check=True, capture_output=True)
    assert report(tmp_path / "o.vtr")["recording"]["complete"]

# SPDX-License-Identifier: MIT
"""The recorder under pressure: what a quarter of a core can carry is not lost; what nobody carries away is counted."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).absolute()
RING = 16384  # events
LIMIT_S = 280


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    out = tmp_path_factory.mktemp("soak")
    cc = [os.environ.get("CC", "gcc"), "-O1", "-g"]
    driver = out / "libcuda.so.1"
    subprocess.run([*cc, "-shared", "-fPIC", HERE / "fake_driver.c", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1",
                    "-o", driver], check=True)
    subprocess.run([*cc, "-shared", "-fPIC", HERE.parent / "crash" / "halt.c", "-o", out / "halt.so"], check=True)
    subprocess.run([*cc, HERE / "storm.c", "-o", out / "storm", driver, f"-Wl,-rpath,{out}", "-lpthread"], check=True)
    return out


def environment(recording, *libraries, **more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VRAMTRACE_")}
    preload = ":".join(map(str, (BUILD / "libinterpose.so", *libraries)))
    return kept | {"LD_PRELOAD": preload, "VRAMTRACE_OUTPUT": str(recording), "VRAMTRACE_JOB": "test"} | more


def read(command, recording):
    done = subprocess.run([BUILD / "vramtrace", command, "--json", recording], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def drain_of(pid):
    """The system's number of the recorder's thread."""
    (tid,) = [int(task.name) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
              if (task / "comm").read_text() == "vramtrace-drain\n"]
    return tid


@contextlib.contextmanager
def quarter_of_a_core(tid):
    """The kernel gives the thread 25 of 100 ms; where no control group can be made, it shares a core with three others."""
    group = pathlib.Path("/sys/fs/cgroup/cpu", f"vramtrace-test-{os.getpid()}")
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text("25000")
        (group / "tasks").write_text(str(tid))
    except OSError:
        cpu = min(os.sched_getaffinity(0))
        os.sched_setaffinity(tid, {cpu})
        spin = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"]
        others = [subprocess.Popen(spin) for _ in range(3)]
        yield
        for other in others:
            other.kill()
            other.wait()
    else:
        yield
        group.rmdir()


@pytest.mark.parametrize("events", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
def test_a_quarter_of_a_core_loses_nothing(programs, tmp_path, events):
    """16 threads at the speed that the recorder lets them have."""
    pairs = events // 32
    with subprocess.Popen([programs / "storm", tmp_path / "counts", "told", "16", str(pairs)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env=environment(tmp_path / "o.vtr"), text=True) as storm:
        assert storm.stdout.readline() == "ready\n"
        with quarter_of_a_core(drain_of(storm.pid)):
            storm.communicate("go\n", timeout=LIMIT_S)
    assert storm.returncode == 0
    found = read("report", tmp_path / "o.vtr")
    assert found["recording"]["lost_events"] == 0
    assert found["recording"]["complete"]
    (device,) = found["devices"]
    assert device["driver"]["allocs"] == device["driver"]["frees"] == 16 * pairs + 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor")
def test_the_drain_leaves_the_programs_processor(programs, tmp_path):
    """Put where the program runs, it goes elsewhere; the program's threads stay as free as they were."""
    allowed = os.sched_getaffinity(0)
    busy = {min(allowed)}
    with subprocess.Popen([programs / "storm", tmp_path / "counts", "told", "1", "2000000"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env=environment(tmp_path / "o.vtr"), text=True) as storm:
        assert storm.stdout.readline() == "ready\n"
        drain = drain_of(storm.pid)
        assert os.sched_getaffinity(storm.pid) == allowed
        os.sched_setaffinity(storm.pid, busy)  # the threads that it starts now inherit that
        storm.stdin.write("go\n")
        storm.stdin.flush()
        while storm.poll() is None and os.sched_getaffinity(drain) != allowed - busy:
            os.sched_setaffinity(drain, busy)
            os.sched_setaffinity(drain, allowed)
            time.sleep(0.1)
        assert storm.poll() is None
        threads = [int(task.name) for task in pathlib.Path(f"/proc/{storm.pid}/task").iterdir()]
        assert {frozenset(os.sched_getaffinity(tid)) for tid in threads if tid != drain} == {frozenset(busy)}
        storm.kill()


def test_a_drain_that_stands_still(programs, tmp_path):
    """Each thread waits for half a second in all, at most 20 ms at a time; then it drops its events and counts them."""
    threads, pairs = 3, RING
    env = environment(tmp_path / "o.vtr", programs / "halt.so", HALT_AT="write:2")
    subprocess.run([programs / "storm", tmp_path / "counts", "threads", str(threads), str(pairs)], env=env, check=True,
                   capture_output=True, timeout=LIMIT_S)
    recording = read("report", tmp_path / "o.vtr")["recording"]
    (process,) = read("info", tmp_path / "o.vtr")["process_list"]
    contexts = recording["events"] + recording["lost_events"] - 2 * threads * pairs
    assert contexts in (0, 1)
    assert recording["lost_events"] == process["lost_events"] >= threads * pairs - RING
    assert not recording["complete"]
    assert process["waits"] >= threads * 25
    assert process["longest_wait_ns"] >= 20_000_000
    text = subprocess.run([BUILD / "vramtrace", "info", tmp_path / "o.vtr"], capture_output=True, text=True).stdout
    assert "for the drain, the longest" in text
    assert "events lost" in text


def test_short_threads_while_the_drain_stands_still(programs, tmp_path):
    """Eight at a time, one after the other, for a second and a half: the next takes the ring that the last has left."""
    threads, pairs = 4000, 5
    env = environment(tmp_path / "o.vtr", programs / "halt.so", HALT_AT="write:4", HALT_MS="1500")
    subprocess.run([programs / "storm", tmp_path / "counts", "churn", str(threads), str(pairs)], env=env, check=True,
                   capture_output=True, timeout=LIMIT_S)
    recording = read("report", tmp_path / "o.vtr")["recording"]
    assert recording["events"] - 2 * threads * pairs in (0, 1)
    assert recording["complete"] and not recording["lost_events"]

# SPDX-License-Identifier: MIT
"""However and whenever a process ends: its trace reads, and holds every call that had returned, exactly once.

The program under test (victim.c) notes each call after it, in a file of its own, and is ended by itself, by the kernel
or from here while its threads are busy, idle, halted inside a hook, or while the recorder is halted in a write.
"""
import collections
import contextlib
import ctypes
import json
import os
import pathlib
import signal
import struct
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
PRELOAD = HERE.parent / "preload"
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).absolute()
LIMIT_S = 60
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
NR_THREADS, NR_NOTES, ENOUGH = 4, 1 << 15, 1000  # as victim.c has them

# How the trace, which nobody supervises here, says that the process ended, and what its parent sees.
ENDINGS = {
    "sigkill": ("killed", -signal.SIGKILL),
    "sigsegv": ("killed", -signal.SIGSEGV),
    "abort": ("signal", -signal.SIGABRT),
    "_exit": ("exit", 3),
    "sigterm": ("killed", -signal.SIGTERM),
}
MOMENTS = {
    "busy": ("busy", None),
    "idle": ("idle", None),
    "in the driver's call": ("halted", "call"),
    "in the recorder": ("halted", "record"),
    "before a write": ("halted", "write:3"),
    "in the middle of a write": ("halted", "middle:4"),
}


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    """The program, with a driver beside it and the library that halts it."""
    out = tmp_path_factory.mktemp("victim")
    cc = [os.environ.get("CC", "gcc"), "-O1", "-g"]
    driver = out / "libcuda.so.1"
    subprocess.run([*cc, "-shared", "-fPIC", PRELOAD / "fake_driver.c", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1",
                    "-o", driver], check=True)
    subprocess.run([*cc, "-shared", "-fPIC", HERE / "halt.c", "-o", out / "halt.so"], check=True)
    subprocess.run([*cc, HERE / "victim.c", "-rdynamic", "-o", out / "victim", driver, f"-Wl,-rpath,{out}",
                    "-lpthread"], check=True)
    return out


@contextlib.contextmanager
def started(victim, folder, moment, ending, **options):
    doing, halt = MOMENTS[moment]
    env = {name: value for name, value in os.environ.items() if not name.startswith("VRAMTRACE_")} | {
        "LD_PRELOAD": f"{BUILD}/libinterpose.so:{victim}/halt.so",
        "VRAMTRACE_OUTPUT": str(folder / "job.vtr"),
        "VRAMTRACE_JOB": "test",
    } | ({"HALT_AT": halt} if halt else {})
    process = subprocess.Popen([victim / "victim", folder / "notes", doing, ending], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def noted(path):
    """The calls that had returned: allocated and freed addresses."""
    data = path.read_bytes()
    for thread in range(NR_THREADS):
        at = thread * NR_NOTES * 8
        (nr,) = struct.unpack_from("Q", data, at)
        for note in struct.unpack_from(f"{nr}Q", data, at + 8):
            yield "free" if note & 1 else "alloc", note >> 1


def events(trace):
    """What the trace holds of the driver: kinds and addresses."""
    command = [BUILD / "vramtrace", "dump", "--json", "--kind", "driver_alloc,driver_free", trace]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as dump:
        for line in dump.stdout:
            event = json.loads(line)
            yield event["kind"][len("driver_"):], event["address"]
    assert dump.returncode == 0


def check_trace(trace, notes):
    held = collections.Counter(events(trace))
    returned = collections.Counter(noted(notes))
    assert set(held.values()) == {1}
    assert len(returned) > NR_THREADS * ENOUGH
    missing = returned - held
    assert not missing, f"{len(missing)} calls that had returned are not in the trace"
    # What is in the trace and not in the notes had not returned: at most one call of each thread.
    assert len(held - returned) <= NR_THREADS


def check(folder, end):
    done = subprocess.run([BUILD / "vramtrace", "report", "--json", folder / "job.vtr"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [process["end"] for process in found["process_list"]] == [end] * len(found["process_list"])
    assert found["recording"]["lost_events"] == 0
    assert found["recording"]["complete"]
    return found["process_list"]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("ending", ENDINGS)
def test_ending(victim, tmp_path, ending, moment):
    end, status = ENDINGS[ending]
    with started(victim, tmp_path, moment, ending) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out, err) == (status, "", "")
    assert len(check(tmp_path, end)) == 1
    (trace,) = (tmp_path / "job.vtr").glob("*.vtr")
    check_trace(trace, tmp_path / "notes")


# The moments at which the kills from outside differ from the process's own; `make test-all` has all of them.
FEW = [moment if moment in ("busy", "in the middle of a write") else pytest.param(moment, marks=pytest.mark.slow)
       for moment in MOMENTS]


@pytest.fixture
def adopts_orphans():
    """A process whose parent is gone becomes ours, so that we can wait until the last of it is."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.mark.parametrize("moment", FEW)
def test_kill_of_the_process_group(victim, tmp_path, moment, adopts_orphans):
    """As the kernel's out-of-memory killer ends a whole group: parent and fork child, with a trace each."""
    with started(victim, tmp_path, moment, "wait", start_new_session=True) as process:
        (child,) = {int(process.stdout.readline()) for _ in range(2)} - {process.pid}
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.waitpid(child, 0)
    found = check(tmp_path, "killed")
    assert len(found) == 2
    for process_found in found:
        notes = "notes" if process_found["pid"] == process.pid else "notes.child"
        (trace,) = (tmp_path / "job.vtr").glob(f"*.{process_found['pid']}.*.vtr")
        check_trace(trace, tmp_path / notes)


@pytest.fixture
def small_cgroup():
    """A control group of 64 MiB; skipped where none can be made. Yields the file that takes a process in."""
    with contextlib.ExitStack() as stack:
        for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            group = pathlib.Path(root, f"vramtrace-test-{os.getpid()}")
            try:
                group.mkdir()
                stack.callback(group.rmdir)
                (group / limit).write_text(str(64 << 20))
                for name in ("memory.memsw.limit_in_bytes", "memory.swap.max"):
                    if (group / name).exists():
                        (group / name).write_text("0" if name.endswith("max") else str(64 << 20))
                if (group / "memory.oom.group").exists():
                    (group / "memory.oom.group").write_text("1")
            except OSError:
                continue
            yield group / "cgroup.procs"
            return
        pytest.skip("no control group of memory can be made here")


@pytest.mark.parametrize("moment", FEW)
def test_out_of_host_memory(victim, tmp_path, moment, small_cgroup):
    """The kernel's own killer, in a control group."""
    enter = lambda: small_cgroup.write_text(str(os.getpid()))  # noqa: E731
    with started(victim, tmp_path, moment, "eat", preexec_fn=enter) as process:
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == -signal.SIGKILL
    check(tmp_path, "killed")
    (trace,) = (tmp_path / "job.vtr").glob("*.vtr")
    check_trace(trace, tmp_path / "notes")

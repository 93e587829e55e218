# SPDX-License-Identifier: MIT
"""Killed for want of host memory, or by somebody: `oom` tells them apart by what `run` has seen of the control group."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import program_environment

LIMIT = 1 << 30
GROUPS = Path("/sys/fs/cgroup")
PIN = """
import torch
small, kept = torch.ones(1 << 20, device="cuda"), []
while True:
    kept.append(torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True).fill_(1))  # planted
"""
# Something that is not recorded, as a data loader's worker, takes the memory; the program only fails.
WORKER = """
import subprocess, sys, torch
small = torch.ones(1 << 20, device="cuda")
pinned = torch.empty(32 << 20, dtype=torch.uint8, pin_memory=True)
grow = "kept = []\\nwhile True: kept.append(bytearray(64 << 20)); kept[-1][::4096] = bytes(16384)"
if subprocess.run([sys.executable, "-S", "-c", grow]).returncode < 0:
    raise RuntimeError("a worker was killed")
"""
# What lies in shared memory goes with the process; slowly enough to be seen before.
SHARE = """
import time, torch
small, kept = torch.ones(1 << 20, device="cuda"), []
while True:
    kept.append(torch.ones(16 << 20, dtype=torch.uint8).share_memory_())
    time.sleep(0.1)
"""
# Two that use the GPU; the one that pins is killed by the kernel, then the other by the program that began both.
PAIR = """
import subprocess, sys
pin = "import torch; kept = [torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True).fill_(1) for _ in range(30)]"
idle = "import time, torch; small = torch.ones(1 << 20, device='cuda'); print(flush=True); time.sleep(100)"
other = subprocess.Popen([sys.executable, "-c", idle], stdout=subprocess.PIPE)
other.stdout.readline()
first = subprocess.Popen([sys.executable, "-c", pin])
first.wait()
other.kill()
other.wait()
print(first.pid, other.pid)
sys.exit(1)
"""
KILLED = "import os, torch\nkept = torch.ones(1 << 28, device='cuda')\nos.kill(os.getpid(), 9)"


@pytest.fixture
def limited_group():
    """A control group of 1 GiB, if this machine lets us make one."""
    for parent, limit in ((GROUPS / "memory", "memory.limit_in_bytes"), (GROUPS, "memory.max")):
        group = parent / f"vramtrace-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(LIMIT))
            yield group
        except OSError:
            continue
        finally:
            group.rmdir()
        return
    pytest.skip("no control group can be made here")


def run_in(vramtrace, group, tmp_path, source):
    script = tmp_path / "job.py"
    script.write_text(source)
    argv = vramtrace.run_argv(tmp_path / "job.vtr", [sys.executable, script])
    shell = f"echo $$ >{group}/cgroup.procs && exec \"$@\""
    return subprocess.run(["sh", "-c", shell, "sh", *map(str, argv)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env=program_environment(), timeout=300)  # fmt: skip


def test_kernel_killed_it(vramtrace, limited_group, tmp_path):
    done = run_in(vramtrace, limited_group, tmp_path, PIN)
    assert done.returncode == -9, done.stderr
    told = vramtrace.json("oom", tmp_path / "job.vtr")
    (finding,) = told["findings"]
    assert (finding["verdict"], finding["cause"]) == ("host_oom", "killed")
    assert finding["site"]["file"].endswith("job.py") and finding["site"]["line"] == 5
    (killed,) = told["killed"]
    assert killed["host_oom"] and killed["oom_kills"] == 1 and killed["limit_bytes"] == LIMIT
    assert killed["pinned_bytes"] == finding["bytes"] and killed["pinned_bytes"] % (64 << 20) == 0
    # What was pinned is what filled the group, up to what Python, PyTorch and the last piece take.
    assert LIMIT // 4 < killed["pinned_bytes"] <= LIMIT + (64 << 20)
    assert killed["devices"][0]["free_bytes"] > 70 << 30
    assert vramtrace.json("report", tmp_path / "job.vtr")["findings"] == told["findings"]
    assert vramtrace.call("oom", "--exit-code", tmp_path / "job.vtr").returncode == 1
    lines = vramtrace.call("oom", tmp_path / "job.vtr").stdout.splitlines()
    assert lines[0] == "Out of memory on the host" and lines[1].startswith("host_oom: ")
    assert len(lines) <= 24 and all(len(line) <= 80 for line in lines), lines


def test_shared_memory_is_that_of_before(vramtrace, limited_group, tmp_path):
    """The group is full of it; after the kill there is none."""
    done = run_in(vramtrace, limited_group, tmp_path, SHARE)
    assert done.returncode == -9, done.stderr
    told = vramtrace.json("oom", tmp_path / "job.vtr")
    assert [f["cause"] for f in told["findings"]] == ["killed"]
    assert LIMIT // 4 < told["killed"][0]["shared_bytes"] <= LIMIT


def test_kernel_killed_the_larger_one(vramtrace, limited_group, tmp_path):
    """By what they held, not by which was quiet first."""
    done = run_in(vramtrace, limited_group, tmp_path, PAIR)
    pinning, idle = (int(word) for word in done.stdout.split())
    told = vramtrace.json("oom", tmp_path / "job.vtr")
    assert {k["pid"]: k["host_oom"] for k in told["killed"]} == {pinning: True, idle: False}
    assert told["findings"][0]["facts"] == {"says": "host_killed", "pid": pinning}


def test_kernel_killed_its_worker(vramtrace, limited_group, tmp_path):
    done = run_in(vramtrace, limited_group, tmp_path, WORKER)
    assert done.returncode == 1 and "a worker was killed" in done.stderr, done.stderr
    told = vramtrace.json("oom", tmp_path / "job.vtr")
    assert [(f["verdict"], f["cause"], f["bytes"]) for f in told["findings"]] == [
        ("host_oom", "other_killed", 32 << 20)
    ]
    assert told["killed"] == []


@pytest.fixture(scope="module")
def killed(vramtrace, tmp_path_factory):
    return vramtrace.record(tmp_path_factory.mktemp("killed") / "job.vtr", [sys.executable, "-c", KILLED]).path


def test_somebody_killed_it(vramtrace, killed):
    """SIGKILL is no failure of an allocation; `oom` says what was free."""
    done = vramtrace.call("oom", killed)
    assert "did not run out" in done.stdout and "was killed from outside; its GPU 0 had 7" in done.stdout
    told = vramtrace.json("oom", killed)
    assert told["findings"] == [] and told["killed"][0]["host_oom"] is False
    assert vramtrace.call("oom", "--exit-code", killed).returncode == 0


def test_note_goes_with_copies(vramtrace, killed, tmp_path):
    """What the control group counted is in copies, too, with another name for the host."""
    (note,) = killed.glob("*.host")
    note.write_text(f"oom_kills 1\nmachine 0\nlimit_bytes {LIMIT}\nshared_bytes 4096\n")
    assert vramtrace.call("anonymize", killed, tmp_path / "copy.vtr").returncode == 0
    (copied,) = (tmp_path / "copy.vtr").glob("*.host")
    assert copied.read_text() == note.read_text() and copied.name != note.name
    for path in (killed, tmp_path / "copy.vtr"):
        told = vramtrace.json("oom", path)
        assert told["findings"][0]["verdict"] == "host_oom" and told["killed"][0]["shared_bytes"] == 4096
    # Without a note nobody knows.
    copied.unlink()
    told = vramtrace.json("oom", tmp_path / "copy.vtr")
    assert told["findings"] == [] and told["killed"][0]["host_oom"] is None
    assert "or host memory ran out" in vramtrace.call("oom", tmp_path / "copy.vtr").stdout

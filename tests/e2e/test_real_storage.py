# SPDX-License-Identifier: MIT
"""Real file systems and a real limit of memory under a recording, where test_storage.py injects their errors.

The program is unharmed, what could be stored reads, and what could not is stated. Mounts are in a namespace of the
test's own. Not to be had in a usual kernel's namespace: a quota (test_storage.py injects EDQUOT), and a mounted file
system that refuses shared mappings (it injects ENODEV).
"""

import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from harness import LIMIT_S

CRASH = Path(__file__).resolve().parents[1] / "crash"
MIB = 1 << 20
PAIRS = 60_000
SOME = 32 << 10
FOR_LONG = 3_000_000  # allocations, of which a tenth of a second has but some

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems and makes control groups")


class Mounts:
    """Commands run in a mount namespace that ends with the test."""

    def __init__(self):
        ready = "echo; exec sleep 1000"
        self.holder = subprocess.Popen(["unshare", "-m", "sh", "-c", ready], stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"\n"
        self.enter = ["nsenter", "-t", str(self.holder.pid), "-m"]

    def run(self, *argv, **options):
        return subprocess.run([*self.enter, *map(str, argv)], check=True, capture_output=True, text=True, **options)

    def mount(self, *argv, needs="mount"):
        """Mount, or skip the test where this machine cannot."""
        if not shutil.which(needs):
            pytest.skip(f"'{needs}' is not installed")
        try:
            self.run(*argv)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"{' '.join(map(str, argv[:3]))}: {error.stderr.strip()}")

    def close(self):
        self.holder.kill()
        self.holder.wait()


@pytest.fixture
def mounts():
    with contextlib.closing(Mounts()) as mounts:
        yield mounts


@pytest.fixture(scope="module")
def program(compile_c, cuda_flags):
    return compile_c(CRASH / "driver_loop.c", *cuda_flags)


class Job:
    """driver_loop, recorded into `folder`, which is seen in the namespace only; what it counted, what was recorded."""

    def __init__(self, vramtrace, program, mounts, tmp_path, folder, limit, **environment):
        self.vramtrace, self.mounts, self.counts = vramtrace, mounts, tmp_path / "counts"
        self.recording = Path(folder, "job.vtr")
        self.counts.write_bytes(bytes(4096))
        env = vramtrace.preload_environment(
            vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", VRAMTRACE_OUTPUT=self.recording, **environment
        )
        argv = ["env", *(f"{name}={env.pop(name)}" for name in ("LD_PRELOAD", "LD_LIBRARY_PATH"))]
        self.process = subprocess.Popen([*mounts.enter, *argv, program, self.counts, str(limit)], env=env,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip

    def counted(self):
        data = self.counts.read_bytes()
        return [int.from_bytes(data[at : at + 8], "little") for at in (0, 8)]

    def wait_until_recording(self):
        """Until its trace has its name, and some frames."""
        seen = Path(f"/proc/{self.mounts.holder.pid}/root", self.recording.relative_to("/"))
        while not any(trace.stat().st_size > SOME for trace in seen.glob("*.vtr")) and self.process.poll() is None:
            time.sleep(0.001)
        assert self.process.poll() is None

    def finish(self):
        """Its end is that of a program without a recorder."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        assert (self.process.returncode, out, err) == (0, "", "")

    def said(self, command):
        return subprocess.run([*self.mounts.enter, self.vramtrace.program, *command, self.recording],
                              capture_output=True, text=True, timeout=LIMIT_S)  # fmt: skip

    def json(self, command):
        done = self.said([command, "--json"])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def check_whole(self):
        report = self.json("report")
        assert report["recording"]["lost_events"] == 0 and report["recording"]["complete"]
        driver = report["devices"][0]["driver"]
        assert [driver["allocs"], driver["frees"]] == self.counted()
        assert self.said(["verify"]).returncode == 0

    def check_stopped(self, why):
        report, (process,) = self.json("report"), self.json("info")["process_list"]
        assert process["stopped"] == why and not report["recording"]["complete"]
        assert 0 < report["devices"][0]["driver"]["allocs"] < self.counted()[0]
        assert "what came later is missing" in self.said(["report"]).stderr
        assert self.said(["verify"]).returncode in (1, 2)


@pytest.fixture
def job(vramtrace, program, mounts, tmp_path):
    return lambda *arguments, **environment: Job(vramtrace, program, mounts, tmp_path, *arguments, **environment)


@pytest.fixture
def disk(mounts, tmp_path):
    """A disk of 64 MiB that becomes read-only when it has an error, as disks do."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    mounts.mount("mount", "-o", "loop,errors=remount-ro", image, folder)
    return folder, image


def test_a_disk_that_becomes_read_only(job, mounts, disk):
    folder, image = disk
    running = job(folder, FOR_LONG)
    running.wait_until_recording()
    loop = subprocess.run(["losetup", "-j", image], capture_output=True, text=True, check=True).stdout.split(":")[0]
    trigger = Path("/sys/fs/ext4", Path(loop).name, "trigger_fs_error")
    if not trigger.exists():
        pytest.skip("this kernel lets nobody trigger an error of a file system")
    # What the journal does not have yet when the disk fails may be gone with it, the new folder's names as well.
    subprocess.run([*mounts.enter, "sync", "-f", folder], check=True)
    trigger.write_text("a test's error")
    running.finish()
    assert subprocess.run([*mounts.enter, "touch", folder / "more"], capture_output=True).returncode
    running.check_stopped("write failed")


def test_a_disk_that_others_fill(job, mounts, tmp_path):
    """A tmpfs of 64 MiB, which runs full in mid-run: what the recorder has mapped is its own."""
    (tmp_path / "small").mkdir()
    mounts.mount("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", tmp_path / "small")
    running = job(tmp_path / "small", FOR_LONG)
    running.wait_until_recording()
    subprocess.run([*mounts.enter, "dd", "if=/dev/zero", f"of={tmp_path}/small/filler", "bs=1M"], capture_output=True)
    running.finish()
    running.check_stopped("disk full")


def test_a_disk_with_room(job, mounts, tmp_path):
    (tmp_path / "small").mkdir()
    mounts.mount("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", tmp_path / "small")
    running = job(tmp_path / "small", PAIRS)
    running.finish()
    running.check_whole()


def test_a_disk_without_room_for_rings(job, mounts, tmp_path):
    """No ring file fits: it lies elsewhere, and that is said."""
    for name in ("small", "node"):
        (tmp_path / name).mkdir()
    mounts.mount("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", tmp_path / "small")
    running = job(tmp_path / "small", PAIRS, TMPDIR=tmp_path / "node", VRAMTRACE_RINGS="folder")
    running.finish()
    running.check_whole()
    assert [process["storage"] for process in running.json("info")["process_list"]] == ["temporary"]
    assert not list((tmp_path / "node").iterdir())


def test_a_file_system_in_user_space(job, mounts, tmp_path):
    """As on a network's: the trace lies there, the rings on the node, and that is said."""
    image, folder, node = (tmp_path / name for name in ("image", "disk", "node"))
    folder.mkdir()
    node.mkdir()
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    mounts.mount("fuse2fs", "-o", "fakeroot,direct_io", image, folder, needs="fuse2fs")
    try:
        running = job(folder, PAIRS, TMPDIR=node, VRAMTRACE_RINGS="folder")
        running.finish()
        running.check_whole()
        assert [process["storage"] for process in running.json("info")["process_list"]] == ["temporary"]
        assert "ring file in the node's own folder" in running.said(["info"]).stdout
        assert not list(node.iterdir())
    finally:
        mounts.run("umount", folder)


@pytest.fixture
def memory_group():
    """memory_group(bytes): a control group's folder, of the first version or the second; skipped where there is none."""
    with contextlib.ExitStack() as stack:

        def make(limit):
            for root, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
                group = Path(root, f"vramtrace-storage-{os.getpid()}-{limit}")
                try:
                    group.mkdir()
                    stack.callback(group.rmdir)
                    (group / name).write_text(str(limit))
                    return group
                except OSError:
                    continue
            pytest.skip("no control group of memory can be made here")

        yield make


def peak_of(group):
    for name in ("memory.max_usage_in_bytes", "memory.peak"):
        if (group / name).exists():
            return int((group / name).read_text())
    pytest.skip("this kernel does not tell how much memory a control group has used")


def test_64_mib_more_than_the_program_needs(vramtrace, program, memory_group, tmp_path):
    """In a control group that has no more, recorded and not: no kill by the kernel, and nothing is lost."""
    counts = tmp_path / "counts"

    def run(group, *libraries, **environment):
        counts.write_bytes(bytes(4096))
        env = vramtrace.preload_environment(*libraries, vramtrace.simgpu / "libsimgpu.so", **environment)
        enter = f"echo $$ > {group}/cgroup.procs; exec \"$0\" \"$@\""
        argv = ["sh", "-c", enter, "env", f"LD_PRELOAD={env.pop('LD_PRELOAD')}", program, counts, str(10 * PAIRS)]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LIMIT_S)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    group = memory_group(4096 * MIB)
    run(group)
    need = peak_of(group)
    recording = tmp_path / "job.vtr"
    run(memory_group(need + 64 * MIB), vramtrace.interpose, VRAMTRACE_OUTPUT=recording)
    report = vramtrace.json("report", recording)
    assert report["recording"]["lost_events"] == 0 and report["recording"]["complete"]
    assert report["devices"][0]["driver"]["allocs"] == 10 * PAIRS

# SPDX-License-Identifier: MIT
"""Bad input and trouble: a clear error, nothing lost, and never a crash."""

import concurrent.futures
import json
import os
import pty
import random
import struct
import subprocess
import sys

import pytest

from harness import JOBS, offset_in, program_environment, python, trace_files
from interpreters import installed

EDGE_BYTES = 4096


# ---- missing things --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("no-such-command",), ("report",), ("report", "--no-such-option", "x")])
def test_usage(vramtrace, arguments):
    done = vramtrace.call(*arguments)
    assert done.returncode == 2
    assert done.stderr and not done.stdout


@pytest.mark.parametrize("command", ["report", "peak", "timeline", "leaks", "info", "dump", "verify"])
def test_missing_recording(vramtrace, tmp_path, command):
    missing = tmp_path / "missing.vtr"
    done = vramtrace.call(command, missing)
    assert done.returncode == 2
    assert f"'{missing}'" in done.stderr and "No such file or directory" in done.stderr
    assert not done.stdout


def test_missing_program(vramtrace, tmp_path):
    assert vramtrace.call("run", "--simulate", "h100").returncode == 125
    output = tmp_path / "job.vtr"
    done = vramtrace.call("run", "--simulate", "h100", "-o", output, "--", tmp_path / "missing")
    assert done.returncode == 127
    assert "missing'" in done.stderr
    plain = tmp_path / "plain"
    plain.write_text("not a program\n")
    done = vramtrace.call("run", "--simulate", "h100", "-o", output, "--", plain)
    assert done.returncode == 126
    assert "plain'" in done.stderr
    assert not output.exists()


def test_missing_gpu_profile(vramtrace, tmp_path):
    done = vramtrace.call("run", "--simulate", "h1000", "-o", tmp_path / "job.vtr", "--", "true")
    assert done.returncode == 125
    assert "'h1000'" in done.stderr and "h100" in done.stderr.replace("h1000", "")


# ---- outputs ---------------------------------------------------------------------------------------------------


def test_unwritable_output(vramtrace, tmp_path):
    file = tmp_path / "file"
    file.touch()
    started = tmp_path / "started"
    done = vramtrace.call("run", "--simulate", "h100", "-o", file / "job.vtr", "--", "touch", started)
    assert done.returncode == 125
    assert "job.vtr'" in done.stderr and "Not a directory" in done.stderr
    assert not started.exists()


def test_unwritable_output_under_preload(vramtrace, tmp_path):
    """Without `run` there is nobody to refuse: the program runs as if it were not traced."""
    file = tmp_path / "file"
    file.touch()
    env = vramtrace.preload_environment(
        vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", VRAMTRACE_OUTPUT=file / "job.vtr"
    )
    done = subprocess.run(list(map(str, python("ending.py", "return"))), env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ten tensors\n", "")


def run_on_terminal(argv):
    """Run with all three streams on a pseudo terminal; returns status and what it printed."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        list(map(str, argv)), stdin=slave, stdout=slave, stderr=slave, env=program_environment(), start_new_session=True
    )
    os.close(slave)
    printed = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:  # EIO: the last process has closed its end
            break
        if not data:
            break
        printed += data
    os.close(master)
    return process.wait(), printed.decode()


def test_existing_output_is_refused_on_a_terminal(vramtrace, record, tmp_path):
    done = record("ending.py", "return")
    before = {path: path.read_bytes() for path in trace_files(done.path)}
    argv = vramtrace.run_argv(done.path, python("ending.py", "return"))
    status, printed = run_on_terminal(argv)
    assert status == 125
    assert "job.vtr'" in printed and "--force" in printed
    assert "ten tensors" not in printed
    assert {path: path.read_bytes() for path in trace_files(done.path)} == before


def test_force_replaces(vramtrace, record, tmp_path):
    done = record("ending.py", "return")
    before = trace_files(done.path)
    status, printed = run_on_terminal(vramtrace.run_argv(done.path, python("ending.py", "sys.exit"), options=["--force"]))
    assert status == 3 and "ten tensors" in printed
    assert len(trace_files(done.path)) == 1 and trace_files(done.path) != before
    assert vramtrace.json("report", done.path)["process_list"][0]["exit_status"] == 3


def test_existing_output_gets_a_generation(vramtrace, record):
    """Nobody is there to ask: the job starts, beside what is there, and the newest generation is the one read."""
    first = record("ending.py", "return")
    kept = trace_files(first.path)
    second = record("ending.py", "sys.exit")
    assert (first.status, second.status) == (0, 3)
    assert set(kept) < set(trace_files(second.path))
    assert (second.path / "g2").is_dir()
    assert vramtrace.json("report", second.path)["process_list"][0]["exit_status"] == 3


def test_program_without_cuda(vramtrace, tmp_path):
    argv = [vramtrace.program, "run", "--simulate", "h100", "-o", tmp_path / "job.vtr", "--", *python("no_cuda.py")]
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, env=program_environment())
    assert (done.returncode, done.stdout) == (0, "1000.0\n")
    assert "nothing recorded" in done.stderr
    assert all(line.startswith("vramtrace: ") for line in done.stderr.splitlines())
    assert not (tmp_path / "job.vtr").exists()


# ---- damaged recordings ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trace(recorded):
    """The bytes of one process's trace, of a few dozen events."""
    (path,) = trace_files(recorded("ending.py", "return").path)
    return path.read_bytes()


def check_trouble(done, where, status=2):
    assert done.returncode == status, f"{where}: {done.returncode} {done.stderr}"
    assert offset_in(done.stderr) is not None, f"{where}: no offset in '{done.stderr}'"


def test_empty_file(vramtrace, tmp_path):
    (tmp_path / "nothing.vtr").touch()
    for command in ("report", "peak", "timeline", "leaks", "info", "dump", "verify"):
        done = vramtrace.call(command, tmp_path / "nothing.vtr")
        assert done.returncode == 2 and "empty" in done.stderr


def test_not_a_trace(vramtrace, tmp_path):
    (tmp_path / "picture.vtr").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 100)
    for command in ("report", "peak", "timeline", "leaks", "info", "dump", "verify"):
        check_trouble(vramtrace.call(command, tmp_path / "picture.vtr"), command)


def test_folder_without_traces(vramtrace, tmp_path):
    done = vramtrace.call("report", tmp_path)
    assert done.returncode == 2 and f"'{tmp_path}'" in done.stderr


def test_cut_at_any_byte(vramtrace, trace, tmp_path):
    """Inside a frame or between two: it is called cut off (in its header, unreadable), and the message has the offset."""
    size = len(trace)
    (header,) = struct.unpack_from("<I", trace, 12)
    cuts = {*range(min(EDGE_BYTES, size)), *range(max(0, size - EDGE_BYTES), size), *range(0, size, 97)}

    def read(cut):
        path = tmp_path / f"cut-{cut}.vtr"
        path.write_bytes(trace[:cut])
        done = vramtrace.call("verify", path)
        path.unlink()
        return cut, done

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for cut, done in pool.map(read, sorted(cuts)):
            check_trouble(done, f"cut at {cut}", 2 if cut < header else 1)
            assert offset_in(done.stderr) <= cut
            assert cut < header or done.stdout.splitlines()[-1].startswith("  cut off: ")


@pytest.mark.parametrize("command", ["report", "peak", "timeline", "leaks", "info", "dump"])
def test_cut_under_every_command(vramtrace, trace, tmp_path, command):
    for cut in (1, 7, 8, 64, 1000, len(trace) // 2, len(trace) - 1):
        path = tmp_path / "cut.vtr"
        path.write_bytes(trace[:cut])
        check_trouble(vramtrace.call(command, path), f"{command} of {cut} bytes")


def test_changed_bytes(vramtrace, trace, tmp_path):
    """A wrong byte anywhere is noticed, and is never a crash."""
    rng = random.Random(7)
    for _ in range(200):
        at = rng.randrange(len(trace))
        damaged = bytearray(trace)
        damaged[at] ^= 1 << rng.randrange(8)
        path = tmp_path / "damaged.vtr"
        path.write_bytes(damaged)
        for command in ("verify", "report"):
            done = vramtrace.call(command, path)
            told = [2]
            if command == "report":
                told.append(0)
            elif "the file ends inside the frame" in done.stderr:  # the last one, if it says now that it is longer
                told.append(1)
            assert done.returncode in told, f"{command}, byte {at}: {done.returncode} {done.stderr}"


# Several frames of events; blocks of 1 to 40 MiB live for up to 200 steps, and the cache is given back now and then.
CHURN = """
import random, torch
rng, held = random.Random(3), {}
for step in range(6000):
    held[step % rng.randrange(1, 200)] = torch.empty(rng.randrange(1, 40) << 18, device="cuda")
    if step % 500 == 499:
        held = {key: held[key] for key in list(held)[::7]}
        torch.cuda.empty_cache()
"""


def test_peaks_after_damage(vramtrace, tmp_path):
    """Whatever is lost: no peak is higher than it was, and who held it adds up to it."""
    done = vramtrace.record(tmp_path / "job.vtr", [sys.executable, "-c", CHURN])
    (whole,) = trace_files(done.path)
    path = tmp_path / "damaged.vtr"
    rng = random.Random(11)

    def peaks():
        (device,) = json.loads(vramtrace.call("report", "--json", path).stdout)["devices"]
        assert sum(device["driver"]["by_owner_at_peak"].values()) == device["driver"]["peak_bytes"]
        (at_peak,) = json.loads(vramtrace.call("peak", "--json", path).stdout)["devices"]
        assert sum(group["bytes"] for group in at_peak["groups"]) == at_peak["bytes"]
        assert at_peak["bytes"] == device["tensor"]["peak_bytes"]
        return [device[part]["peak_bytes"] for part in ("tensor", "reserved", "driver")]

    path.write_bytes(whole.read_bytes())
    true = peaks()
    size = path.stat().st_size
    for at in range(size // 10, size, size // 30):
        damaged = bytearray(whole.read_bytes())
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        assert all(got <= most for got, most in zip(peaks(), true)), f"byte {at}"


# ---- a full disk -----------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(request, tmp_path):
    """A file system of its own, of the size that the test's parameter names."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", disk], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def check_stopped_by_full_disk(vramtrace, done):
    """What was written before reads, and says why it stops there."""
    report = vramtrace.json("report", done.path)
    assert not report["recording"]["complete"]
    assert report["recording"]["events"] > 0
    (device,) = report["devices"]
    assert not device["exact"]
    assert device["tensor"]["allocs"] < done.ledger["allocation.all.allocated"]
    assert "disk was full" in vramtrace.call("report", done.path).stderr
    assert "disk full: No space left on device" in vramtrace.call("info", done.path).stdout


@pytest.mark.parametrize("small_disk", ["64k", "512k"], indirect=True)
def test_full_disk(vramtrace, small_disk, untraced):
    """Neither ring file nor trace fits. The program never notices."""
    job = ("alloc_loop.py", "--limit", "400000")
    done = vramtrace.record(small_disk / "job.vtr", python(*job))
    plain = untraced(*job)
    assert (done.status, done.stdout, done.stderr) == (plain.status, plain.stdout, plain.stderr)
    check_stopped_by_full_disk(vramtrace, done)


@pytest.mark.parametrize("small_disk", ["64m"], indirect=True)
def test_disk_that_fills_up(vramtrace, small_disk):
    """The ring file is there when the disk fills up: no hook may touch a page that no longer fits."""
    done = vramtrace.record(small_disk / "job.vtr", python("fill_disk.py", small_disk))
    assert (done.status, done.stderr) == (0, "")
    check_stopped_by_full_disk(vramtrace, done)


# ---- Python that is not supported ------------------------------------------------------------------------------


def test_unsupported_python(vramtrace, tmp_path):
    """Native stacks only, and `info` says why."""
    old = [path for path, version in installed().items() if (3, 6) <= version < (3, 8)]
    if not old:
        pytest.skip("no Python older than 3.8 is installed here")
    done = vramtrace.record(tmp_path / "job.vtr", [old[-1], JOBS / "old_python.py"])
    assert (done.status, done.stdout) == (0, f"live {8 << 20}\n")
    report = vramtrace.json("report", tmp_path / "job.vtr")
    assert report["devices"][0]["driver"]["live_at_end_bytes"] == 8 << 20
    text = vramtrace.call("info", tmp_path / "job.vtr").stdout
    assert "unsupported" in text and "3." in text

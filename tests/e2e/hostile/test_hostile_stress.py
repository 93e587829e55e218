# SPDX-License-Identifier: MIT
"""Mixed faults over five programs, at random times: no crash, no wrong figure, no silent loss.

Every program keeps an account of itself that outlives it; a recording is held against that. STRESS_SEED repeats a
session, STRESS_S sets how many seconds it goes on (the slow tier: 60).
"""

import collections
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import program_environment

PROGRAMS = Path(__file__).resolve().parent / "programs"
ACCOUNT = struct.Struct("<5Q")
SMALL_DISK = "1500k"
IN_FLIGHT_BYTES = 48 * (4 << 20)  # stress.c: a wave of threads, each with one block
LIMIT_S = 60
READERS = ("verify", "info", "report", "leaks", "peak")
JOBS = {
    "loop": ("stress", "loop", 4000),
    "threads": ("stress", "threads", 12),
    "forks": ("stress", "forks", 9),
    "train": ("stress_torch.py", "train", 150),
    "greenlets": ("stress_torch.py", "greenlets", 60),
}
FAULTS = ("none", "kill program", "kill both", "truncate", "remove folder", "full disk")


class Account:
    def __init__(self, path):
        self.pid = int(path.name)
        self.begun, self.allocs, self.frees, self.live, self.peak = ACCOUNT.unpack(path.read_bytes().ljust(40, b"\0"))


def accounts_of(folder):
    return [Account(path) for path in folder.iterdir()]


class Run:
    """One program with one fault; what it left, as readers see it."""

    def __init__(self, vramtrace, binary, chance, folder, job, fault):
        self.vramtrace, self.chance, self.job, self.fault = vramtrace, chance, job, fault
        self.accounts, self.recording = folder / "accounts", folder / "recording" / "job.vtr"
        self.accounts.mkdir(parents=True)
        self.recording.parent.mkdir()
        self.program = JOBS[job][0]
        start = [binary] if self.program == "stress" else [sys.executable, PROGRAMS / self.program]
        self.argv = [*start, JOBS[job][1], self.accounts, JOBS[job][2]]
        self.mounted = fault == "full disk" and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "stress", self.recording.parent], capture_output=True
        ).returncode

    def close(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.recording.parent], check=True)

    def run(self):
        argv = [*map(str, self.vramtrace.run_argv(self.recording, self.argv))]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=program_environment(), start_new_session=True)  # fmt: skip
        try:
            self.wait_for_first(process)
            time.sleep(self.chance.uniform(0, 1.5))
            self.strike(process)
            self.stdout, self.stderr = process.communicate(timeout=LIMIT_S)
            self.status = process.returncode
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()

    def wait_for_first(self, process):
        end = time.monotonic() + LIMIT_S
        while process.poll() is None and time.monotonic() < end:
            if any(account.allocs for account in accounts_of(self.accounts)):
                return
            time.sleep(0.005)

    def strike(self, process):
        if process.poll() is not None:
            return
        if self.fault == "kill both":
            os.killpg(process.pid, signal.SIGKILL)
        elif self.fault == "kill program":
            for pid in children_of(process.pid):
                os.kill(pid, signal.SIGKILL)
        elif self.fault == "truncate":
            for path in self.recording.rglob("*"):
                if path.is_file() and self.chance.random() < 0.7:
                    os.truncate(path, self.chance.randrange(path.stat().st_size + 1))
        elif self.fault == "remove folder":
            shutil.rmtree(self.recording, ignore_errors=True)

    # ---- what is held ------------------------------------------------------------------------------

    def check(self):
        self.check_program()
        self.check_readers()
        if self.fault in ("truncate", "remove folder", "full disk"):
            self.check_said()
        else:
            self.check_figures()

    def check_program(self):
        if "kill" in self.fault:
            assert self.status in (0, -signal.SIGKILL), self.stderr
        else:
            assert self.status == 0, self.stderr
            assert self.stdout == "done\n"

    def check_readers(self):
        """Whatever is left, no reader crashes, and one that fails says something."""
        for command in READERS:
            done = self.vramtrace.call(command, self.recording)
            assert done.returncode in (0, 1, 2), f"{command}: {done.returncode}: {done.stderr}"
            assert done.returncode != 2 or done.stderr

    def report(self):
        done = self.vramtrace.call("report", "--json", self.recording)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def recorded(self, report):
        """By process: events of the ledger that the program's account is of, its peak, what was lost."""
        found = {}
        ledger = "driver" if self.program == "stress" else "tensor"
        for row in report["process_list"]:
            found[row["pid"]] = {"events": 0, "peak": 0, "lost": row["lost_events"], "complete": row["complete"]}
        for device in report["devices"]:
            one = found[device["pid"]]
            one["events"] += device[ledger]["allocs"] + device[ledger]["frees"]
            one["peak"] = max(one["peak"], device[ledger]["peak_bytes"])
        return found

    def check_figures(self):
        """What the program has counted is recorded, or counted as lost; a complete recording's peak is exact."""
        report = self.report()
        used = [account for account in accounts_of(self.accounts) if account.allocs]
        assert report or not used, "a recording is missing, and the program had used the GPU"
        for account in used:
            one = self.recorded(report).get(account.pid)
            assert one, f"process {account.pid} is missing"
            self.check_process(account, one)

    def check_process(self, account, one):
        counted = account.allocs + account.frees
        assert one["events"] + one["lost"] >= counted
        if one["lost"]:
            return
        if self.job == "threads":  # neither knows the order of two threads' calls that are made at once
            assert one["events"] <= account.begun
            assert abs(one["peak"] - account.peak) <= IN_FLIGHT_BYTES
        elif self.program == "stress":
            assert one["events"] <= account.begun
            assert one["peak"] == account.peak or account.begun > counted and one["peak"] > account.peak
        else:
            assert one["peak"] >= account.peak  # it has gone on since it wrote its account

    def check_said(self):
        """Less than everything is there: then some command says so, or `run` has."""
        report = self.report()
        used = [account for account in accounts_of(self.accounts) if account.allocs]
        missing = False
        found = self.recorded(report) if report else {}
        for account in used:
            one = found.get(account.pid)
            missing |= not one or one["events"] < account.allocs + account.frees
        verified = self.vramtrace.call("verify", self.recording)
        said = not report or not report["recording"]["complete"] or verified.returncode != 0
        said |= "no trace is left" in self.stderr
        assert said or not missing, self.stderr
        if not report and used:
            assert "no use of GPU memory was seen" not in self.stderr


def children_of(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def binary(compile_c, cuda_flags):
    return compile_c(PROGRAMS / "stress.c", *cuda_flags, "-lpthread")


@pytest.mark.slow
def test_stress(vramtrace, binary, tmp_path, reliability):
    seed = int(os.environ.get("STRESS_SEED", time.time_ns() % 1_000_000))
    end = time.monotonic() + float(os.environ.get("STRESS_S", 60))
    chance, done = random.Random(seed), collections.Counter()
    pairs = [(job, fault) for fault in FAULTS for job in JOBS]
    chance.shuffle(pairs)
    while time.monotonic() < end:
        job, fault = pairs[done.total() % len(pairs)]
        run = Run(vramtrace, binary, chance, tmp_path / str(done.total()), job, fault)
        try:
            run.run()
            run.check()
        except Exception as error:
            error.add_note(f"{job} with '{fault}', run {done.total()} of STRESS_SEED={seed}, in {run.recording}")
            raise
        finally:
            run.close()
        shutil.rmtree(tmp_path / str(done.total()))
        done[fault] += 1
    print(f"seed {seed}: {done.total()} runs: {dict(done)}")
    reliability(
        "mixed-faults",
        program="a loop, waves of threads, children that are killed, training, greenlets in backward; killed (alone or "
        "with `run`), their recording cut or removed, the disk full, at random times",
        ends="as without the recorder, or by the kill",
        lost="none, or counted, or what was cut",
        said="complete only where nothing is missing; peaks equal to the program's own",
    )

# SPDX-License-Identifier: MIT
"""
What `top` costs the program that it looks at: processor time, in turn with and without it.

usage: bench_top.py [--rounds N] [--limit N]     (`make bench`; the build is $VRAMTRACE_BUILD)

A program that does nothing but allocate and free is recorded on the simulated GPU. While it runs nobody looks, or `top` does, ten
times a second. Both have processors enough or not, so time on the clock tells of the machine; the processor time of the
program and its recorder is theirs alone.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
JOB = TREE / "tests" / "e2e" / "jobs" / "alloc_loop.py"


def processor_seconds(build, folder, limit, watched):
    """Of the program with its recorder, and of `top`."""
    path = folder / "job.vtr"
    run = [build / "vramtrace", "run", "-q", "--simulate", "h100", "-o", path, "--", sys.executable, JOB, "--limit", str(limit)]
    job, top = subprocess.Popen(run, stdout=subprocess.DEVNULL), None
    if watched:
        while not (path.exists() and list(path.glob("*.vtr"))):
            if job.poll() is not None:
                raise SystemExit("the program made no trace")
        top = subprocess.Popen([build / "vramtrace", "top", "--csv", "100ms", path], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(job.pid, 0)
    assert not status
    looked = os.wait4(top.pid, 0)[2] if top else None
    subprocess.run(["rm", "-rf", path], check=True)
    return usage.ru_utime + usage.ru_stime, looked.ru_utime + looked.ru_stime if looked else 0.0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--limit", type=int, default=300_000)
    wanted = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).resolve()
    took = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(wanted.rounds):
            for watched in took:
                took[watched].append(processor_seconds(build, Path(folder), wanted.limit, watched))
    print(f"| {wanted.limit:,} allocations | processor time, median | least | most | of `top` |\n|---|---|---|---|---|")
    for watched, all_of in took.items():
        seconds = [program for program, _ in all_of]
        print(f"| {'looked at by top' if watched else 'alone'} | {statistics.median(seconds):.2f} s | {min(seconds):.2f} s | "
              f"{max(seconds):.2f} s | {statistics.median(top for _, top in all_of):.2f} s |")


main()

# SPDX-License-Identifier: MIT
"""What an event costs a thread when others record at the same time, each on its own simulated device.

usage: bench_threads.py [--rounds N] [--json FILE]     (`make bench`; the build is $VRAMTRACE_BUILD)

Processor time of the thread for one report of an allocator's, hook and all (bench/threads_loop.c). Every round runs
all numbers of threads in random order; a cost is compared with that of one thread in its own round. Without a global
lock, or memory that all threads write, it does not depend on their number. Where there are more threads than cores,
no more of them than cores can be in each other's way at one time.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
THREADS = (1, 2, 4)
LIBC10 = "void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void) {}\n"
STACKS = ("python", "full")


def run(build, program, stacks, threads, folder):
    command = [build / "vramtrace", "run", "-q", "--force", "--simulate", f"{max(THREADS)}xh100", "--stacks", stacks,
               "-o", f"{folder}/bench.vtr", "--", program, threads]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench_threads.py: {threads} threads ended with status {done.returncode}:\n{done.stderr}")
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="runs of each number of threads (5)")
    parser.add_argument("--json", type=Path, help="also write the figures to FILE")
    options = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
    flags = (build / "cuda.flags").read_text().split()
    cases = [(stacks, threads) for stacks in STACKS for threads in THREADS]
    costs = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        program, library = f"{folder}/threads_loop", f"{folder}/libc10.so"
        source = TREE / "bench" / "threads_loop.c"
        cc = os.environ.get("CC", "cc")
        subprocess.run([cc, "-shared", "-fPIC", "-Wl,-soname,libc10.so", "-o", library, "-xc", "-"], input=LIBC10.encode(),
                       check=True)
        subprocess.run([cc, "-O2", "-g", "-o", program, source, *flags, "-Wl,--no-as-needed", library,
                        f"-Wl,-rpath,{folder}", "-lpthread", "-ldl"], check=True)
        for _ in range(options.rounds):
            for stacks, threads in random.sample(cases, len(cases)):
                costs[stacks, threads].append(run(build, program, stacks, threads, folder))
    print(f"Processor time of an event in a thread, medians of {options.rounds} rounds, on {os.cpu_count()} cores.\n")
    print("| stacks | threads | ns an event (rounds) | of one thread's (rounds) |\n|---|---|---|---|")
    for (stacks, threads), rounds in costs.items():
        ratio = [cost / one for cost, one in zip(rounds, costs[stacks, 1])]
        print(f"| {stacks} | {threads} | {statistics.median(rounds):.0f} ({min(rounds):.0f} to {max(rounds):.0f}) "
              f"| {statistics.median(ratio):.2f} ({min(ratio):.2f} to {max(ratio):.2f}) |")
    if options.json:
        options.json.write_text(json.dumps({f"{s} {n}": c for (s, n), c in costs.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""What an event costs by where the rings lie (`run --rings`), and what many threads cost that begin at once.

usage: bench_rings.py [--rounds N] [--json FILE]     (`make bench`; the build is $VRAMTRACE_BUILD)

A C program takes driver memory of the simulated GPU and gives it back (bench/rings_loop.c); counted is the processor time
of the whole process, the recorder's thread included. Every round runs all places, and the program without a recorder, in
random order; a cost is what came on top of the plain run of its own round. The threads' times are of the clock on the
wall, from the first thread's start to the last one's end.
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
PLACES = ("none", "shm", "memory", "folder")
PAIRS, THREADS, PAIRS_OF_A_THREAD = 100_000, 1500, 20


def run(build, program, place, folder, *arguments):
    command = [build / "vramtrace", "run", "-q", "--force", "--simulate", "h100", "-o", f"{folder}/bench.vtr"]
    command += ["--no-record"] if place == "none" else ["--rings", place]
    done = subprocess.run([*map(str, [*command, "--", program, *arguments])], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench_rings.py: '{place}' ended with status {done.returncode}:\n{done.stderr}")
    return [float(word) for word in done.stdout.split()]


def span(values, digits=0):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="runs of each place (7)")
    parser.add_argument("--json", type=Path, help="also write the figures to FILE")
    options = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
    flags = (build / "cuda.flags").read_text().split()
    one = {place: [] for place in PLACES}
    many = {place: [] for place in PLACES}
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/rings_loop"
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", program, TREE / "bench" / "rings_loop.c", *flags,
                        "-lpthread"], check=True)
        for _ in range(options.rounds):
            for place in random.sample(PLACES, len(PLACES)):
                one[place].append(run(build, program, place, folder, PAIRS))
                many[place].append(run(build, program, place, folder, PAIRS_OF_A_THREAD, THREADS))
    print(f"Medians of {options.rounds} rounds on {os.cpu_count()} cores (smallest to largest).\n")
    print(f"| rings | ns an event | page faults in {2 * PAIRS:,} events | {THREADS:,} threads, {2 * PAIRS_OF_A_THREAD} events "
          "each: times the plain run's |\n|---|---|---|---|")
    for place in PLACES[1:]:
        costs = [ours[0] - plain[0] for ours, plain in zip(one[place], one["none"])]
        faults = [ours[1] - plain[1] for ours, plain in zip(one[place], one["none"])]
        ratios = [ours[2] / plain[2] for ours, plain in zip(many[place], many["none"])]
        print(f"| {place} | {span(costs)} | {span(faults)} | {span(ratios, 1)} |")
    if options.json:
        options.json.write_text(json.dumps({"one": one, "many": many}, indent=1) + "\n")


if __name__ == "__main__":
    main()

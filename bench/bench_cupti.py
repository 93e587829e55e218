# SPDX-License-Identifier: MIT
"""What `--cupti` adds to a call that allocates or frees, on the simulated GPU.

usage: bench_cupti.py [--rounds N] [--json FILE]     (`make bench`; the build is $VRAMTRACE_BUILD)

Every round runs all modes in random order; the table has each mode's fastest round, and the slowest in brackets. The
time is the calling thread's processor time for one cudaMalloc or cudaFree, the simulated call included, in the fastest
of many short passes (bench/cupti_loop.c): other programs on the machine only ever add to it.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]

# name -> arguments of `vramtrace run`
MODES = {
    "not recorded": ["--no-record"],
    "recorded, `--cupti=off` (the default)": ["--cupti=off"],
    "`--cupti=auto`: callbacks": ["--cupti=auto"],
    "`--cupti`: callbacks and records": ["--cupti"],
}


def run(build, program, options, folder):
    command = [build / "vramtrace", "run", "-q", "--force", "--simulate", "h100", *options]
    command += [] if "--no-record" in options else ["-o", f"{folder}/bench.vtr"]
    done = subprocess.run([*map(str, command), "--", program], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench_cupti.py: {' '.join(options)} ended with status {done.returncode}:\n{done.stderr}")
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="runs of each mode (5)")
    parser.add_argument("--json", type=Path, help="also write the figures to FILE")
    options = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
    flags = (build / "cuda.flags").read_text().split()
    times = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/cupti_loop"
        source = TREE / "bench" / "cupti_loop.c"
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", program, source, *flags], check=True)
        for _ in range(options.rounds):
            for mode in random.sample(list(MODES), len(MODES)):
                times[mode].append(run(build, program, MODES[mode], folder))
    print("| mode | ns a call |\n|---|---|")
    for mode, rounds in times.items():
        print(f"| {mode} | {min(rounds):.0f} (to {max(rounds):.0f}) |")
    if options.json:
        options.json.write_text(json.dumps(times, indent=1) + "\n")


if __name__ == "__main__":
    main()

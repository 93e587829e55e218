# SPDX-License-Identifier: MIT
"""Where the recorder's time goes, by samples of the processor: in the program's threads, reading the clock, and in its own.

usage: bench_hooks.py [--rounds N] [--steps N] [--json FILE]     (`make bench`; the build is $VRAMTRACE_BUILD)

The same job as bench_recording.py under `perf record` (where that is missing, nothing is measured). Counted are samples in
libinterpose.so, in the program's threads and in its own, and those in the kernel's clock beyond the ones without the
recorder; divided by all allocations and frees of the job, the first steps included. Unlike the difference of two runs
that says nothing of caches that are used by two, but what other tenants do to the machine is in it once only.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
JOB = TREE / "bench" / "llama_steps.py"
MODES = {stacks: ["--stacks", stacks] for stacks in ("none", "python", "full")}
BASE = "off"
FREQUENCY = 4999  # samples a second
WARM_UP_STEPS = 6  # as the job has them


def sample(build, options, steps, folder):
    """One run: {(thread, object): samples}, and the events of all steps."""
    record = [] if BASE in options else ["-o", f"{folder}/bench.vtr", *options]
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", FREQUENCY, "-o", f"{folder}/perf.data", "--"]
    command += [build / "vramtrace", "run", "-q", "--force", "--simulate", "h100", "--simulate-values", "off"]
    command += (["--no-record"] if BASE in options else record) + ["--", sys.executable, JOB, steps]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"bench_hooks.py: {' '.join(options)} ended with status {done.returncode}:\n{done.stderr}")
    events = json.loads(done.stdout.splitlines()[-1])["events"] * (steps + WARM_UP_STEPS)
    report = ["perf", "report", "-q", "-i", f"{folder}/perf.data", "--no-children", "--sort", "comm,dso", "-n", "-t", "|"]
    lines = subprocess.run(report, capture_output=True, text=True, check=True).stdout.splitlines()
    counts = Counter()
    for cells in (line.split("|") for line in lines if line.strip()):
        counts[cells[2].strip(), cells[3].strip()] += int(cells[1])
    return counts, events


def figures(counts, events, clock_without):
    """Nanoseconds an event: in hooks, for the clock, and in the recorder's own thread; and samples of the clock."""
    ns = 1e9 / FREQUENCY / events
    drain = sum(n for (thread, _), n in counts.items() if thread == "vramtrace-drain")
    hooks = sum(n for (thread, file), n in counts.items() if file == "libinterpose.so" and thread != "vramtrace-drain")
    clock = sum(n for (thread, file), n in counts.items() if file == "[vdso]" and thread != "vramtrace-drain")
    return hooks * ns, (clock - clock_without) * ns, drain * ns


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--json", type=Path, help="also write every number to FILE")
    args = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
    if not shutil.which("perf"):
        print("bench_hooks.py: no 'perf' here: nothing measured")
        return
    result = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            counts, _ = sample(build, [BASE], args.steps, folder)
            clock = sum(n for (_, file), n in counts.items() if file == "[vdso]")
            for mode in random.sample(list(MODES), len(MODES)):
                counts, events = sample(build, MODES[mode], args.steps, folder)
                result[mode].append(figures(counts, events, clock))
    print(f"Nanoseconds for each allocation or free; medians of {args.rounds} rounds of {args.steps} steps.\n")
    print("| --stacks | in hooks | clock | both | the recorder's own thread |\n|---|---|---|---|---|")
    for mode, rounds in result.items():
        columns = [*zip(*rounds)]
        columns.insert(2, [hooks + clock for hooks, clock, _ in rounds])
        cells = [f"{statistics.median(c):.0f} ({min(c):.0f} to {max(c):.0f})" for c in columns]
        print(f"| {mode} | " + " | ".join(cells) + " |")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""What the simulated GPU costs: jobs of a size nobody has the GPU for, and its busiest calls.

usage: bench_simulation.py [--rounds N] [--only NAME,...] [--json FILE]     (`make bench`; the build is $VRAMTRACE_BUILD)

Every round runs all jobs, in random order; medians over the rounds, with the smallest and largest. Wall time is of the
whole process tree, from `vramtrace run` on; host memory is the most that all its processes together held (sum of
proportional set sizes, sampled every 0.2 s). The calls are timed by bench/simgpu_loop.c.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
JOBS = TREE / "tests" / "e2e" / "jobs"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
SHARDED = JOBS / "distributed" / "sharded_llama.py"
COMPILED = JOBS / "coverage" / "compiled_gpt.py"
SAMPLE_S = 0.2

# name -> GPU, options of `vramtrace run`, the program; {} is a folder of the run's own, {cache} one of all runs
SCENARIOS = {
    "Llama-7B, 3 steps": ("h100", [], [sys.executable, JOBS / "llama7b.py"]),
    "Llama-7B, 3 steps, values off": ("h100", ["--simulate-values", "off"], [sys.executable, JOBS / "llama7b.py"]),
    "Llama-7B, FSDP2 over 8 ranks, 2 steps": ("8xh100", [], [*TORCHRUN, "8", SHARDED, "{}", "7b"]),
    "Llama-70B, FSDP2 over 8 ranks, 2 steps": ("8xh200", [], [*TORCHRUN, "8", SHARDED, "{}", "70b"]),
    "GPT, torch.compile, warm caches": ("h100", [], [sys.executable, COMPILED, "{cache}"]),
    "GPT, torch.compile, warm caches, not recorded": ("h100", ["--no-record"], [sys.executable, COMPILED, "{cache}"]),
}


class HostMemory(threading.Thread):
    """Samples what a process and all its descendants hold, until it has ended; `peak_bytes` is the most."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak_bytes = pid, 0

    def run(self):
        while Path(f"/proc/{self.pid}").exists():
            self.peak_bytes = max(self.peak_bytes, sum(map(pss_bytes, family(self.pid))))
            time.sleep(SAMPLE_S)


def family(pid):
    """`pid` and its descendants that are alive."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid] + [member for child in children for member in family(int(child))]


def pss_bytes(pid):
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


def run_once(build, scenario, cache):
    """One run of a scenario: wall seconds and peak host memory."""
    gpu, options, program = SCENARIOS[scenario]
    with tempfile.TemporaryDirectory() as folder:
        words = [str(word).replace("{cache}", str(cache)).replace("{}", folder) for word in program]
        output = [] if "--no-record" in options else ["-o", f"{folder}/job.vtr"]
        command = [str(build / "vramtrace"), "run", "-q", "--simulate", gpu, *options, *output, "--", *words]
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(JOBS)}
        start = time.monotonic()
        with open(f"{folder}/log", "w+") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            memory = HostMemory(process.pid)
            memory.start()
            status = process.wait()
            wall_s = time.monotonic() - start
            memory.join()
            if status:
                log.seek(0)
                sys.exit(f"bench_simulation.py: '{scenario}' ended with status {status}:\n{log.read()[-3000:]}")
    return {"wall_s": wall_s, "host_bytes": memory.peak_bytes}


def time_calls(build):
    """{name: ns} as simgpu_loop prints them."""
    flags = (build / "cuda.flags").read_text().split()
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/simgpu_loop"
        source = TREE / "bench" / "simgpu_loop.c"
        subprocess.run(["gcc", "-O2", "-o", program, source, *flags, f"-L{build / 'simgpu'}", "-lcuda"], check=True)
        command = [build / "vramtrace", "run", "-q", "--no-record", "--simulate", "h100", "--", program]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name: float(ns) for name, ns in (line.split() for line in done.stdout.splitlines())}


def spread(values, digits):
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="run only the scenarios whose names contain one of these words")
    parser.add_argument("--json", type=Path, help="also write every number to FILE")
    args = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
    if not (build / "vramtrace").exists():
        sys.exit(f"bench_simulation.py: '{build / 'vramtrace'}' is not built: run `make` first")
    words = args.only.split(",") if args.only else [""]
    chosen = [name for name in SCENARIOS if any(word in name for word in words)]
    result = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory() as cache:
        for name in chosen:
            if "{cache}" in SCENARIOS[name][2]:  # the first run of these fills the cache and does not count
                run_once(build, name, cache)
                break
        for number in range(args.rounds):
            order = random.sample(chosen, len(chosen))
            print(f"round {number + 1} of {args.rounds}: {', '.join(order)}", file=sys.stderr)
            for name in order:
                result[name].append(run_once(build, name, cache))
    calls = time_calls(build)
    print(f"Medians of {args.rounds} rounds (smallest to largest); load now {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs.")
    print()
    print("| job | wall, s | host memory, GiB |\n|---|---|---|")
    for name, runs in result.items():
        wall, host = [run["wall_s"] for run in runs], [run["host_bytes"] / 2**30 for run in runs]
        print(f"| {name} | {spread(wall, 1)} | {spread(host, 2)} |")
    print()
    print("| call | ns |\n|---|---|")
    for name, ns in calls.items():
        function, _, live = name.partition(",")
        print(f"| {function}{f', {live} live allocations' if live else ''} | {ns:.0f} |")
    if args.json:
        args.json.write_text(json.dumps({"jobs": result, "calls": calls}, indent=1) + "\n")


if __name__ == "__main__":
    main()

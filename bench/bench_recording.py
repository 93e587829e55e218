# SPDX-License-Identifier: MIT
"""What recording costs a training step, beside PyTorch's own recorder: all modes in turn, several rounds.

usage: bench_recording.py [--rounds N] [--steps N] [--json FILE]     (`make bench`; the build is $VRAMTRACE_BUILD)

A preload cannot be switched while a program runs, so each series is a process of its own. Machine speed drifts;
therefore every round runs all modes, in random order, and a mode's added time is taken against the `off` of its
own round. The median over the rounds is the result, the smallest and largest round are its spread.
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
JOB = TREE / "bench" / "llama_steps.py"

# name -> arguments of `vramtrace run`, arguments of the job
MODES = {
    "off": (["--no-record"], []),
    "vramtrace --stacks python": (["--stacks", "python"], []),
    "vramtrace --stacks full": (["--stacks", "full"], []),
    "torch stacks='python'": (["--no-record"], ["python"]),
    "torch stacks='all'": (["--no-record"], ["all"]),
}
BASE, REFERENCE = "off", "torch stacks='python'"


def run_series(build, mode, steps):
    """One process; returns the median step in ns, events a step, and trace bytes an event (None if none)."""
    options, arguments = MODES[mode]
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder) / "bench.vtr"
        output = [] if "--no-record" in options else ["-o", recording]
        command = [build / "vramtrace", "run", "-q", "--simulate", "h100", *options, *output, "--"]
        command += [sys.executable, JOB, steps, *arguments]
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
        if done.returncode:
            sys.exit(f"bench_recording.py: '{mode}' ended with status {done.returncode}:\n{done.stderr}")
        series = json.loads(done.stdout.splitlines()[-1])
        lost, size = recorded_loss(build, recording) if output else (0, None)
    return statistics.median(series["step_ns"]), series["events"], lost, size


def recorded_loss(build, recording):
    """Events lost in a recording, and its bytes per event."""
    done = subprocess.run([build / "vramtrace", "report", "--json", recording], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench_recording.py: the recording does not read: {done.stderr}")
    figures = json.loads(done.stdout)["recording"]
    size = sum(path.stat().st_size for path in recording.rglob("*.vtr") if path.is_file())
    return figures["lost_events"], size / max(1, figures["events"])


def measure(build, rounds, steps):
    """{mode: {"step_ns": [...], "added_ns": [...], "lost": n, "bytes": x}}, one number a round."""
    result = {mode: {"step_ns": [], "added_ns": [], "lost": 0, "bytes": None} for mode in MODES}
    for number in range(rounds):
        order = random.sample(list(MODES), len(MODES))
        print(f"round {number + 1} of {rounds}: {', '.join(order)}", file=sys.stderr)
        medians = {}
        for mode in order:
            medians[mode], events, lost, size = run_series(build, mode, steps)
            result[mode]["lost"] += lost
            result[mode]["bytes"] = size
        for mode, median in medians.items():
            result[mode]["step_ns"].append(median)
            result[mode]["added_ns"].append((median - medians[BASE]) / events)
    return result, events


def print_table(result, events, rounds, steps):
    print(f"Llama-shaped job, {events:.0f} allocations and frees a step; {rounds} rounds of {steps} steps, simulated GPU")
    print()
    print("| recorder | step, ms (median) | over off | added ns/event: median (rounds) | of torch python | trace B/event | lost |")
    print("|---|---|---|---|---|---|---|")
    off = statistics.median(result[BASE]["step_ns"])
    reference = statistics.median(result[REFERENCE]["added_ns"])
    for mode, row in result.items():
        step = statistics.median(row["step_ns"])
        added = statistics.median(row["added_ns"])
        cells = [mode, f"{step / 1e6:.2f}"]
        if mode == BASE:
            cells += ["", "", ""]
        else:
            cells.append(f"{100 * (step / off - 1):+.1f} %")
            cells.append(f"{added:.0f} ({min(row['added_ns']):.0f} to {max(row['added_ns']):.0f})")
            cells.append(f"{added / reference:.2f}")
        cells.append("" if row["bytes"] is None else f"{row['bytes']:.2f}")
        cells.append("" if row["bytes"] is None else str(row["lost"]))
        print("| " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", type=Path, help="also write every number to FILE")
    args = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build"))
    result, events = measure(build.absolute(), args.rounds, args.steps)
    print_table(result, events, args.rounds, args.steps)
    if args.json:
        args.json.write_text(json.dumps({"events_per_step": events, "modes": result}, indent=1) + "\n")


main()

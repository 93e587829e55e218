# SPDX-License-Identifier: MIT
"""What recording costs a training step, beside PyTorch's own recorder: all modes in turn, several rounds.

usage: bench_recording.py [--rounds N] [--steps N] [--json FILE]     (`make bench`; the build is $VRAMTRACE_BUILD)

A preload cannot be switched while a program runs, so each series is a process of its own. Machine speed drifts;
therefore every round runs all modes, in random order, and a mode's added time is taken against the `off` of its
own round. The median over the rounds is the result, the smallest and largest round are its spread. Of a series count
its median step and, where other tenants take the processor for seconds at a time, the fastest tenth of its steps,
which is what the processor does when it is left alone. CPU time of all threads also counts what the recorder does
behind the program's back.
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
BASE = "off"
# PyTorch's recorder with the same stacks
COUNTERPART = {"vramtrace --stacks python": "torch stacks='python'", "vramtrace --stacks full": "torch stacks='all'"}
# name -> what the job prints, and which of its steps stands for a series: the nth of a hundred
MEASURES = {"median": ("step_ns", 50), "fastest tenth": ("step_ns", 10), "fastest tenth, CPU": ("cpu_ns", 10)}


def run_series(build, mode, steps):
    """One process: its steps by each measure, events a step, events lost, trace bytes an event (or None)."""
    options, arguments = MODES[mode]
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder) / "bench.vtr"
        output = [] if "--no-record" in options else ["-o", recording]
        simulation = ["--simulate", "h100", "--simulate-values", "off"]  # what is measured is the recorder
        command = [build / "vramtrace", "run", "-q", *simulation, *options, *output, "--"]
        command += [sys.executable, JOB, steps, *arguments]
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
        if done.returncode:
            sys.exit(f"bench_recording.py: '{mode}' ended with status {done.returncode}:\n{done.stderr}")
        series = json.loads(done.stdout.splitlines()[-1])
        lost, size = recorded_loss(build, recording) if output else (None, None)
    steps = {name: statistics.quantiles(series[key], n=100)[nth - 1] for name, (key, nth) in MEASURES.items()}
    return steps | {"events": series["events"], "lost": lost, "bytes_per_event": size}


def recorded_loss(build, recording):
    """Events lost in a recording, and its bytes per event."""
    done = subprocess.run([build / "vramtrace", "report", "--json", recording], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench_recording.py: the recording does not read: {done.stderr}")
    figures = json.loads(done.stdout)["recording"]
    size = sum(path.stat().st_size for path in recording.rglob("*.vtr") if path.is_file())
    return figures["lost_events"], size / max(1, figures["events"])


def measure(build, rounds, steps):
    """{mode: [what run_series() gives, one a round]}"""
    result = {mode: [] for mode in MODES}
    for number in range(rounds):
        order = random.sample(list(MODES), len(MODES))
        print(f"round {number + 1} of {rounds}: {', '.join(order)}", file=sys.stderr)
        for mode in order:
            result[mode].append(run_series(build, mode, steps))
    return result


def added(result, mode, measure):
    """Nanoseconds that a mode adds per event, one number a round."""
    pairs = zip(result[mode], result[BASE])
    return [(series[measure] - base[measure]) / series["events"] for series, base in pairs]


def table_row(result, mode):
    """The cells of one mode, by column title."""
    first = result[mode][0]
    row = {"recorder": mode}
    for measure in MEASURES:
        step = statistics.median(series[measure] for series in result[mode])
        cost = added(result, mode, measure)
        row[f"{measure}, ms"] = f"{step / 1e6:.2f}"
        row[f"ns/event added ({measure})"] = f"{statistics.median(cost):.0f} ({min(cost):.0f} to {max(cost):.0f})"
        row[f"of PyTorch's ({measure})"] = ""
        if mode in COUNTERPART:
            reference = statistics.median(added(result, COUNTERPART[mode], measure))
            row[f"of PyTorch's ({measure})"] = f"{statistics.median(cost) / reference:.2f}"
        if mode == BASE:
            row[f"ns/event added ({measure})"] = ""
    row["trace B/event"] = "" if first["lost"] is None else f"{first['bytes_per_event']:.2f}"
    row["lost"] = "" if first["lost"] is None else str(sum(series["lost"] for series in result[mode]))
    return row


def print_table(result, rounds, steps):
    events = result[BASE][0]["events"]
    print(f"Llama-shaped job, {events:.0f} allocations and frees a step, on a simulated GPU, where no kernel runs.")
    print(f"Medians of {rounds} rounds, each of {steps} steps; load now {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs.")
    print()
    rows = [table_row(result, mode) for mode in MODES]
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(row.values()) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", type=Path, help="also write every number to FILE")
    args = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
    if not (build / "vramtrace").exists():
        sys.exit(f"bench_recording.py: '{build / 'vramtrace'}' is not built: run `make` first")
    result = measure(build, args.rounds, args.steps)
    print_table(result, args.rounds, args.steps)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

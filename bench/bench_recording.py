# SPDX-License-Identifier: MIT
"""What recording costs a training step, beside PyTorch's own recorder: all modes in turn, several rounds.

usage: bench_recording.py [--rounds N] [--steps N] [--json FILE]     (`make bench`; the build is $VRAMTRACE_BUILD)

A preload cannot be switched while a program runs, so each series is a process of its own. Machine speed drifts;
therefore every round runs all modes, in random order, and a mode's added time is taken against the `off` of its
own round. The median over the rounds is the result, the smallest and largest round are its spread. Wall time is
what a user waits for; CPU time of all threads also counts what the recorder does behind the program's back, and
is the steadier of the two when other programs run.
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
CLOCKS = {"step_ns": "wall", "cpu_ns": "CPU"}


def run_series(build, mode, steps):
    """One process: its median step by each clock, events a step, events lost, trace bytes an event (or None)."""
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
    medians = {clock: statistics.median(series[clock]) for clock in CLOCKS}
    return medians | {"events": series["events"], "lost": lost, "bytes_per_event": size}


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


def added(result, mode, clock):
    """Nanoseconds that a mode adds per event, one number a round."""
    pairs = zip(result[mode], result[BASE])
    return [(series[clock] - base[clock]) / series["events"] for series, base in pairs]


def table_row(result, mode):
    """The cells of one mode, by column title."""
    first, clock = result[mode][0], "step_ns"
    step, off = (statistics.median(series[clock] for series in result[name]) for name in (mode, BASE))
    row = {"recorder": mode, "step, ms": f"{step / 1e6:.2f}", "over off": f"{100 * (step / off - 1):+.1f} %"}
    for clock, name in CLOCKS.items():
        cost, reference = added(result, mode, clock), added(result, REFERENCE, clock)
        title = f"added {name} ns/event (rounds)"
        row[title] = f"{statistics.median(cost):.0f} ({min(cost):.0f} to {max(cost):.0f})"
        row[f"of torch's ({name})"] = f"{statistics.median(cost) / statistics.median(reference):.2f}"
    row["trace B/event"] = "" if first["lost"] is None else f"{first['bytes_per_event']:.2f}"
    row["lost"] = "" if first["lost"] is None else str(sum(series["lost"] for series in result[mode]))
    if mode == BASE:
        row = dict.fromkeys(row, "") | {name: row[name] for name in ("recorder", "step, ms")}
    return row


def print_table(result, rounds, steps):
    events = result[BASE][0]["events"]
    print(f"Llama-shaped job, {events:.0f} allocations and frees a step, on a simulated GPU: no kernel runs, the worst case.")
    print(f"Medians of {rounds} rounds of {steps} steps; load now {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs.")
    print()
    rows = [table_row(result, mode) for mode in MODES]
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(row.values()) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=40)
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

# SPDX-License-Identifier: MIT
"""What recording costs a training step, beside PyTorch's own recorder: all modes in turn, several rounds.

usage: bench_recording.py [--rounds N] [--turns N] [--json FILE]     (`make bench`; the build is $VRAMTRACE_BUILD)

A preload cannot be switched while a program runs, so each mode is a process of its own. Where other tenants share the
processor its speed changes from second to second; therefore all modes' processes live side by side and take turns of
a few steps, in random order, one at a time. Each process has its own luck with addresses, which can be more than what is
measured: a round is five new ones, and rounds count for more than steps.
Of a round count the median of a mode's steps, and the fastest tenth, which is what the processor does when it is left
alone; the added time is taken against `off` of the same round. The median over the rounds is the result, the smallest
and largest round are its spread. CPU time of all threads also counts what the recorder does behind the program's back.
"""

import argparse
import contextlib
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
TURN_STEPS = 7
COLD_STEPS = 2  # of a turn: the caches are still another process's
# PyTorch's recorder with the same stacks
COUNTERPART = {"vramtrace --stacks python": "torch stacks='python'", "vramtrace --stacks full": "torch stacks='all'"}
# name -> what the job prints, and which of its steps stands for a series: the nth of a hundred
MEASURES = {"median": ("step_ns", 50), "fastest tenth": ("step_ns", 10), "fastest tenth, CPU": ("cpu_ns", 10)}


class Series:
    """A process that waits for its turns: `with` starts and ends it."""

    def __init__(self, build, mode, options, arguments):
        self.build, self.mode = build, mode
        self.options, self.arguments = options, arguments
        self.steps = {"step_ns": [], "cpu_ns": []}
        self.events = 0

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.recording = Path(self.folder.name) / "bench.vtr"
        output = [] if "--no-record" in self.options else ["-o", self.recording]
        simulation = ["--simulate", "h100", "--simulate-values", "off"]  # what is measured is the recorder
        command = [self.build / "vramtrace", "run", "-q", *simulation, *self.options, *output, "--"]
        command += [sys.executable, JOB, "-", *self.arguments]
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(list(map(str, command)), **pipes, text=True, env=environment)
        return self

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench_recording.py: '{self.mode}' ended with status {self.process.wait()}")
        return json.loads(line)

    def take_turn(self):
        print(TURN_STEPS, file=self.process.stdin, flush=True)
        turn = self.answer()
        for name, steps in self.steps.items():
            steps += turn[name][COLD_STEPS:]
        self.events = turn["events"]

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.folder.cleanup()

    def result(self):
        """Its steps by each measure, events a step, events lost, trace bytes an event (or None)."""
        self.process.stdin.close()
        if self.process.wait():
            sys.exit(f"bench_recording.py: '{self.mode}' ended with status {self.process.returncode}")
        lost, size = (None, None) if "--no-record" in self.options else recorded_loss(self.build, self.recording)
        steps = {}
        for name, (key, nth) in MEASURES.items():
            steps[name] = statistics.quantiles(self.steps[key], n=100)[nth - 1]
        return steps | {"events": self.events, "lost": lost, "bytes_per_event": size}


def recorded_loss(build, recording):
    """Events lost in a recording, and its bytes per event."""
    done = subprocess.run([build / "vramtrace", "report", "--json", recording], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench_recording.py: the recording does not read: {done.stderr}")
    figures = json.loads(done.stdout)["recording"]
    size = sum(path.stat().st_size for path in recording.rglob("*.vtr") if path.is_file())
    return figures["lost_events"], size / max(1, figures["events"])


def measure(build, rounds, turns, modes):
    """{mode: [what Series.result() gives, one a round]}"""
    result = {mode: [] for mode in modes}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        with contextlib.ExitStack() as stack:
            series = [stack.enter_context(Series(build, mode, *modes[mode])) for mode in random.sample(list(modes), len(modes))]
            for one in series:
                one.answer()  # it has warmed up
            for _ in range(turns):
                for one in random.sample(series, len(series)):
                    one.take_turn()
            for one in series:
                result[one.mode].append(one.result())
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


def print_table(result, rounds, turns):
    events = result[BASE][0]["events"]
    print(f"Llama-shaped job, {events:.0f} allocations and frees a step, on a simulated GPU, where no kernel runs.")
    steps = f"{turns} turns of {TURN_STEPS} steps, the first {COLD_STEPS} not counted"
    print(f"Medians of {rounds} rounds, each of {steps}; load now {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs.")
    print()
    rows = [table_row(result, mode) for mode in MODES]
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(row.values()) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--json", type=Path, help="also write every number to FILE")
    args = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
    if not (build / "vramtrace").exists():
        sys.exit(f"bench_recording.py: '{build / 'vramtrace'}' is not built: run `make` first")
    result = measure(build, args.rounds, args.turns, MODES)
    print_table(result, args.rounds, args.turns)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

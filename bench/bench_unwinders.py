# SPDX-License-Identifier: MIT
"""What each unwinder costs an event, and whether the stacks differ: rules, libgcc and libunwind in turn.

usage: bench_unwinders.py [--rounds N] [--turns N] [--json FILE]     (`make bench`; the build is $VRAMTRACE_BUILD)

Cost is measured as bench_recording.py does it: processes of all modes live side by side and take turns of a few steps of
the same job, in random order; a round is new processes. After that three jobs run once with each unwinder, and every tensor's
native stack is compared with that of the rules, as places in files: stacks that one recording has and the other has
not, or not as often. Where libunwind.so.8 is missing its rows are left out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from bench_recording import BASE, COLD_STEPS, MEASURES, TREE, TURN_STEPS, added, measure

UNWINDERS = ("auto", "libgcc", "libunwind")  # auto: rules, judged by libgcc
REFERENCE = "auto"
JOBS = {
    "GPT (examples/train_gpt.py)": [TREE / "examples" / "train_gpt.py"],
    "ResNet-50": [TREE / "tests" / "e2e" / "jobs" / "resnet50.py"],
    "Llama, 2 steps": [TREE / "bench" / "llama_steps.py", "2"],
}


def record(build, unwinder, program, output):
    command = [build / "vramtrace", "run", "-q", "--force", "--simulate", "h100", "--stacks", "full", "--unwinder", unwinder]
    command += ["-o", output, "--", *program]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"bench_unwinders.py: --unwinder {unwinder} ended with status {done.returncode}:\n{done.stderr}")


def read(build, *arguments):
    return subprocess.run([build / "vramtrace", *arguments], capture_output=True, text=True, check=True).stdout


def native_stacks(build, recording):
    """How often each native stack of a tensor event occurs."""
    lines = read(build, "dump", "--json", "-v", "--kind", "tensor_alloc", recording).splitlines()
    stacks = Counter()
    for event in map(json.loads, lines):
        stacks[tuple((frame["module"], frame["offset"]) for frame in event["native"] or ())] += 1
    return stacks


def who_walked(build, recording):
    (process,) = [p for p in json.loads(read(build, "info", "--json", recording))["process_list"] if p["events"]]
    return process["info"]["unwinder"], process["info"].get("unwinder_compared", "none")


def has_libunwind(build, folder):
    record(build, "libunwind", [sys.executable, "-c", "import torch; torch.ones(1, device='cuda')"], f"{folder}/try.vtr")
    return who_walked(build, f"{folder}/try.vtr")[0] == "libunwind"


def print_costs(result, unwinders):
    titles = [f"{name}, ns/event added" for name in MEASURES]
    print("| unwinder | " + " | ".join(f"{title} | of the rules'" for title in titles) + " |", flush=True)
    print("|" + "---|" * (1 + 2 * len(titles)))
    for unwinder in unwinders:
        cells = []
        for name in MEASURES:
            cost, rules = added(result, unwinder, name), added(result, REFERENCE, name)
            cells.append(f"{statistics.median(cost):.0f} ({min(cost):.0f} to {max(cost):.0f})")
            cells.append(f"{statistics.median(cost) / statistics.median(rules):.2f}")
        print(f"| {unwinder} | " + " | ".join(cells) + " |")


def compare(build, unwinders, folder):
    print("\n| job | unwinder | allocations | distinct stacks | frames, mean | differ | walked twice |\n" + "|---" * 7 + "|")
    for name, program in JOBS.items():
        reference = None
        for unwinder in unwinders:
            recording = f"{folder}/{unwinder}.vtr"
            record(build, unwinder, [sys.executable, *program], recording)
            stacks = native_stacks(build, recording)
            reference = reference or stacks
            differ = sum(((stacks - reference) + (reference - stacks)).values())
            frames = sum(len(stack) * n for stack, n in stacks.items()) / stacks.total()
            cells = [name, unwinder, f"{stacks.total()}", f"{len(stacks)}", f"{frames:.0f}", f"{differ}"]
            print("| " + " | ".join([*cells, who_walked(build, recording)[1]]) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--json", type=Path, help="also write every number to FILE")
    args = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
    with tempfile.TemporaryDirectory() as folder:
        unwinders = [u for u in UNWINDERS if u != "libunwind" or has_libunwind(build, folder)]
        modes = {BASE: (["--no-record"], [])}
        modes |= {u: (["--stacks", "full", "--unwinder", u], []) for u in unwinders}
        result = measure(build, args.rounds, args.turns, modes)
        print(f"Llama-shaped job, {result[BASE][0]['events']:.0f} allocations and frees a step. Medians of {args.rounds} rounds,")
        print(f"each of {args.turns} turns of {TURN_STEPS} steps, the first {COLD_STEPS} not counted.\n")
        print_costs(result, unwinders)
        compare(build, unwinders, folder)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""
What `whatif` costs: one setting, and a search of 32, over a trace of a million events; beside `report`, which reads the same.

usage: bench_whatif.py [--events N] [--rounds N]     (`make bench`; the build is $VRAMTRACE_BUILD)

Seconds and memory are medians of the rounds, in which the contenders take turns. Operations are requests and frees, each of
them served by every setting and by the recorded one: per second of what is above `report`.
"""

import argparse
import os
import statistics
import tempfile
from pathlib import Path

from bench_export import TREE, repeated, timed

SETTINGS = {"report": 0, "one setting": 3, "search": 33}  # that serve the requests, the recorded one among them


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build"))
    with tempfile.TemporaryDirectory() as folder:
        trace = repeated(build, Path(folder), chosen.events)
        argv = {
            "report": [build / "vramtrace", "report", trace],
            "one setting": [build / "vramtrace", "whatif", "--conf", "expandable_segments:True", trace],
            "search": [build / "vramtrace", "whatif", "--search", trace],
        }
        rounds = {name: [] for name in argv}
        for _ in range(chosen.rounds):
            for name in argv:
                rounds[name].append(timed(argv[name]))
    base = statistics.median(seconds for seconds, _ in rounds["report"])
    print(f"{chosen.events:,} events, {chosen.rounds} rounds\n")
    print(f"{'':14}{'s':>8}{'spread':>16}{'MiB':>8}{'M operations/s':>16}")
    for name, times in rounds.items():
        seconds = [seconds for seconds, _ in times]
        middle, memory = statistics.median(seconds), statistics.median(mib for _, mib in times)
        rate = f"{chosen.events * SETTINGS[name] / (middle - base) / 1e6:16.1f}" if SETTINGS[name] else ""
        print(f"{name:14}{middle:8.2f}{min(seconds):8.2f}{max(seconds):8.2f}{memory:8.0f}{rate}")


if __name__ == "__main__":
    main()

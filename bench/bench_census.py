# SPDX-License-Identifier: MIT
"""What looking for names costs: how long the program stands still, and the copy's processor time and memory.

usage: bench_census.py [--rounds N] [--json FILE]     (`make bench`; the build is $VRAMTRACE_BUILD)

`vramtrace names PID` asks a program that allocates all the time (bench/census_job.py): the longest of its calls meanwhile is
the one in which the copy was made. Where others want the processor as well, how long the call was on one is the figure that
they change least. The copy is watched from outside until it ends: its processor time, and how much its own memory grows;
that of the program, which it shares, does not count.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
JOB = TREE / "bench" / "census_job.py"
# MiB resident, objects, pages
SIZES = ((1024, 300_000, "small"), (1024, 300_000, "huge"), (1024, 1_000_000, "small"), (4096, 300_000, "small"))
SECONDS = 2.5  # that one census has
MIB = 1 << 20


def children(pid):
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def look_at(pid):
    """Nanoseconds on a processor and bytes of a process that nobody has given it; None: it has ended."""
    try:
        ns = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
        status = Path(f"/proc/{pid}/status").read_text()
        return ns, int(status.split("RssAnon:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        return None


def watch(pid):
    """The copy's processor time and memory of its own, from its beginning to its end."""
    first = copy = None
    until = time.monotonic() + SECONDS
    while not first:
        for copy in children(pid):
            first = first or look_at(copy)
        if time.monotonic() > until:
            sys.exit("bench_census.py: there was no copy; see 'names' in `vramtrace info`")
    last, most = first, first[1]
    while (now := look_at(copy)) is not None:
        last, most = now, max(most, now[1])
        time.sleep(0.002)
    return last[0] / 1e9, most - first[1]


def take_one(build, process, pid):
    print(SECONDS, file=process.stdin, flush=True)
    names = subprocess.Popen([build / "vramtrace", "names", "--json", str(pid)], stdout=subprocess.PIPE, text=True)
    cpu, memory = watch(pid)
    looked = json.loads(names.communicate()[0])["objects"]
    stall = json.loads(process.stdout.readline())
    million = looked / 1e6
    return {"stall_ms": stall["stall_ns"] / 1e6, "stall_cpu_ms": stall["stall_cpu_ns"] / 1e6, "objects": looked,
            "copy_s": cpu, "copy_mib": memory / MIB, "copy_s_per_million": cpu / million, "copy_mib_per_million": memory / MIB / million}


def measure(build, resident, objects, pages, rounds):
    with tempfile.TemporaryDirectory() as folder:
        command = [build / "vramtrace", "run", "-q", "--simulate", "h100", "-o", f"{folder}/bench.vtr", "--", sys.executable,
                   JOB, resident, objects, pages]
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "VRAMTRACE_NAMES": "auto"}
        with subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=environment) as process:
            said = json.loads(process.stdout.readline())
            figures = [take_one(build, process, said["pid"]) for _ in range(rounds)]
            process.stdin.close()
    return said, figures


def spread(figures, key, digits):
    values = [one[key] for one in figures]
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11, help="censuses of each size (11)")
    parser.add_argument("--json", type=Path, help="also write the figures to FILE")
    options = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
    all_figures = {}
    print(f"Medians of {options.rounds} censuses, on {os.cpu_count()} cores; load before {os.getloadavg()[0]:.1f}.\n")
    print("| resident, MiB | pages | objects looked at | program stands still, ms | of that on a processor, ms "
          "| copy, s of processor time | a million objects | copy, MiB of its own | a million objects |\n|---|---|---|---|---|---|---|---|---|")
    for resident, objects, pages in SIZES:
        said, figures = measure(build, resident, objects, pages, options.rounds)
        all_figures[f"{resident} MiB, {objects} objects, {pages} pages"] = figures
        looked = statistics.median(one["objects"] for one in figures)
        cells = [spread(figures, "stall_ms", 1), spread(figures, "stall_cpu_ms", 1), spread(figures, "copy_s", 2),
                 spread(figures, "copy_s_per_million", 2), spread(figures, "copy_mib", 1), spread(figures, "copy_mib_per_million", 0)]
        print(f"| {said['resident_mib']} | {pages} | {looked:,.0f} | " + " | ".join(cells) + " |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(all_figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

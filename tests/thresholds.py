# SPDX-License-Identifier: MIT
"""
Moves each threshold of the analyzer a quarter down and up, and lists what is then said otherwise of planted and healthy
jobs.

`make thresholds` runs it with a build whose thresholds can be moved (analyzer/base/threshold.h). Jobs are recorded
once. What counts are verdicts, causes, classes and kinds with their lines, in the order in which `oom`, `leaks`,
`frag` and `advise` have them; no figures.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TREE / "tests" / "e2e"))

import test_frag  # noqa: E402
import test_leaks_growth  # noqa: E402
import test_oom  # noqa: E402
from harness import WITH_NAMES, Vramtrace, program_environment, python  # noqa: E402

DOCUMENT = TREE / "docs" / "diagnosis.md"
BEGIN, END = "<!-- thresholds: made by `make thresholds THRESHOLDS_FLAGS=--write` -->", "<!-- thresholds: end -->"
DEFINE = re.compile(r"^#define (\w+) +THRESHOLD(_RATIO)?\((\w+), (.+?)\)(?= */\*|$)", re.M)
GROUP = 8  # thresholds moved together first
COMMANDS = ("oom", "leaks", "frag", "advise")
GROWTH_MORE = {"varying": 100, "everything": 40, "bank": 40, "generation": 4000, "serving": 1500}
HEALTHY_MORE = {"longer": 40, "resolution": 40, "generation": 4000, "serving": 1500, "loading": 1500}
FRAG = ("failure", "segments", "mostly", "retry", "streams", "graph")


def jobs():
    """Name of each job, and how it is run: the program, options of `run`, whether names are looked for."""
    small = ("--simulate-capacity", "4GiB")
    found = {cause: (python(test_oom.script_of(cause), cause), small, True) for cause in test_oom.CAUSES}
    kinds = {kind: test_leaks_growth.STEPS for kind in test_leaks_growth.PLANTS} | GROWTH_MORE
    for kind, steps in kinds.items():
        found[f"leaks-{kind}"] = (python("leaks/planted.py", kind, str(steps)), (), False)
    kinds = {kind: test_leaks_growth.STEPS for kind in test_leaks_growth.HEALTHY} | HEALTHY_MORE
    for kind, steps in kinds.items():
        found[f"healthy-{kind}"] = (python("leaks/healthy.py", kind, str(steps)), (), False)
    for job in test_frag.HEALTHY:
        name = "healthy-" + re.sub(r"\.py|-", "", job).replace(" ", "-")
        found[name] = (python(*job.split()), (), False)
    for scenario in FRAG:
        found[f"frag-{scenario}"] = (python("frag.py", scenario), (), False)
    return found


def record(vramtrace, folder, name, program, options, names):
    """The recording of a job, made if it is not there yet."""
    path = folder / f"{name}.vtr"
    if not path.exists():
        made = folder / f"new-{name}.vtr"
        for _ in range(3):
            done = vramtrace.record(made, program, options=(*options, "--force"), env=WITH_NAMES if names else None)
            if done.status != -signal.SIGABRT:  # PyTorch itself, after one in ten tracebacks out of backward
                break
        made.rename(path)
    return path


def thresholds(room=None, only=None):
    """Of each room its thresholds and their values, as they are written."""
    found, rooms = {}, {}
    for table in sorted(TREE.glob("analyzer/*/*_thresholds.h")):
        for name, _, again, value in DEFINE.findall(table.read_text()):
            assert name == again and name not in found, f"{table}: {name}"
            rooms[name] = table.parent.name
            found[name] = value
    wanted = [name for name in found if (not room or rooms[name] in room) and (not only or name in only)]
    return {name: (rooms[name], found[name]) for name in wanted}


def place(finding):
    site = finding.get("site") or {}
    return f"{Path(site.get('file') or '').name}:{site.get('line')}"


def said(command, text):
    """What a command says, without figures."""
    told = json.loads(text)
    rows = [(f.get("verdict"), f.get("cause"), place(f)) for f in told.get("findings") or []]
    for growth in told.get("growth") or []:
        rows += [("growth", c["class"], place(c)) for c in growth["causes"] if c["is_finding"]]
    if command == "advise":
        rows += [("advice", row["kind"]) for row in told["advice"]]
    return rows


def read(command, text):
    try:
        return said(command, text)
    except (ValueError, KeyError):
        return [("failed",)]


class Judge:
    """The build whose thresholds can be moved."""

    def __init__(self, program):
        self.program = program

    def call(self, command, recording, more):
        done = subprocess.run(
            [self.program, command, "--json", recording], capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env=program_environment(more),
        )  # fmt: skip
        return read(command, done.stdout)

    def changing(self, sets, command, recording, base, folder):
        """Which of some sets of names, each with a factor, change what is said, and what is said then."""
        lines = [f"{','.join(names)} {factor} {folder}/{i}\n" for i, (names, factor) in enumerate(sets)]
        (folder / "moves").write_text("".join(lines))
        if sets:
            self.call(command, recording, {"VT_MOVED_THRESHOLDS": str(folder / "moves")})
        for i, (names, factor) in enumerate(sets):
            output = folder / str(i)
            now = read(command, output.read_text()) if output.exists() else [("failed",)]
            output.unlink(missing_ok=True)
            if now == [("failed",)]:  # it crashed, or had printed something before the first threshold was asked for
                now = self.call(command, recording, {"VT_MOVED_THRESHOLD": f"{','.join(names)}={factor}"})
            if now != base:
                yield names, factor, now

    def changes(self, names, factors, command, recording):
        """
        What is said otherwise by a command of a recording: (name, factor, before, after). Moved in groups first: most
        decide nothing here. Two of a group that undo each other would be overlooked.
        """
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "asked").touch()
            base = self.call(command, recording, {"VT_ASKED_THRESHOLDS": str(folder / "asked")})
            asked = set((folder / "asked").read_text().split())
            names = [name for name in names if name in asked]
            nr_groups = -(-len(names) // GROUP)
            sets = [(names[i::nr_groups], factor) for i in range(nr_groups) for factor in factors]
            found = list(self.changing(sets, command, recording, base, folder))
            sets = [([name], factor) for group, factor, _ in found for name in group]
            for (name,), factor, now in list(self.changing(sets, command, recording, base, folder)):
                yield name, factor, base, now


def words(rows):
    """What is said, in short."""
    return ", ".join(str(row[1] or row[0]) for row in rows) or "nothing"


def table(results):
    lines = ["| room | threshold | value | lower: jobs of which something else is said | higher |"]
    lines.append("|---|---|---|---|---|")
    order = sorted(results, key=lambda r: -sum(len(names) for names in r["jobs"].values()))
    for r in order:
        cells = [", ".join(sorted(r["jobs"][factor])) or "" for factor in sorted(r["jobs"])]
        lines.append(f"| {r['room']} | `{r['name']}` | {r['value']} | {' | '.join(cells)} |")
    return lines


def write(results, nr_jobs, factors):
    """Put what changes something into the document, for the rooms that were looked at."""
    moving = [r for r in results if any(r["jobs"].values())]
    rooms = list(dict.fromkeys(r["room"] for r in results))
    text = DOCUMENT.read_text()
    counts = ", ".join(f"{sum(r['room'] == room for r in results)} of {room}" for room in rooms)
    lines = [
        f"Of {len(results)} thresholds ({counts}), {len(moving)} change what is said of any of {nr_jobs} jobs when",
        f"they are multiplied by {' or '.join(f'{f:g}' for f in factors)}; the rest change nothing.",
        "",
        *table(moving),
    ]
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    DOCUMENT.write_text(text[:start] + "\n" + "\n".join(lines) + "\n" + text[end:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moving", type=Path, default=TREE / "build/thresholds/vramtrace", help="the build to move")
    jobs_folder = TREE / "build/thresholds/jobs"
    parser.add_argument("--jobs", type=Path, default=jobs_folder, help="where recordings are, and are made")
    parser.add_argument("--room", action="append", help="of these rooms alone")
    parser.add_argument("--only", action="append", metavar="NAME", help="these thresholds alone")
    parser.add_argument("--factor", action="append", type=float, help="0.75 and 1.25 if not given")
    parser.add_argument("--write", action="store_true", help="put the table into docs/diagnosis.md")
    parser.add_argument("--record", action="store_true", help="make the recordings, and stop")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell each change")
    args = parser.parse_args()
    factors = sorted(args.factor or [0.75, 1.25])
    args.jobs.mkdir(parents=True, exist_ok=True)
    vramtrace = Vramtrace(Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")))
    pool = ThreadPoolExecutor(2)
    names = list(jobs())
    paths = list(pool.map(lambda job: record(vramtrace, args.jobs, job[0], *job[1]), jobs().items()))
    if args.record:
        return
    judge, wanted = Judge(args.moving), thresholds(args.room, args.only)
    results = {
        name: {"room": room, "name": name, "value": value, "jobs": {factor: set() for factor in factors}}
        for name, (room, value) in wanted.items()
    }
    pairs = [(command, name, path) for name, path in zip(names, paths) for command in COMMANDS]
    tasks = pool.map(lambda pair: list(judge.changes(wanted, factors, pair[0], pair[2])), pairs)
    for (command, job, _), changes in zip(pairs, tasks):
        for name, factor, before, after in changes:
            results[name]["jobs"][factor].add(job)
            if args.verbose:
                change = f"{words(before)} -> {words(after)}"
                print(f"{command} {job}: {name} x {factor:g}: {change}", file=sys.stderr, flush=True)
    results = list(results.values())
    print("\n".join(table(results)))
    nr_moving = sum(any(r["jobs"].values()) for r in results)
    print(f"\n{nr_moving} of {len(results)} thresholds change what is said of any of {len(names)} jobs.")
    if args.write:
        write(results, len(names), factors)


main()

# SPDX-License-Identifier: MIT
"""What the trace format costs: writing, reading and reporting a long trace, beside heaptrack and PyTorch's snapshot.

usage: bench_format.py [--rounds N] [--events N]     (`make bench`; the build is $VRAMTRACE_BUILD)

The Llama-shaped job is recorded once; the middle of its trace, between two moments at which the same blocks are live, is
repeated until the trace has so many events (trace_repeat.c). Frames hold 6000 events and are compressed alone, so that
repetition helps nobody. Every round runs all contenders in random order, each on one core; counted is CPU time, user and
system, since other programs may run. heaptrack, where it is installed, records a Python program that makes and parses JSON
with the system's malloc; its events are the allocations and frees of that program.
"""

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
BENCH = TREE / "bench"
JOB = BENCH / "llama_steps.py"
STEPS = 100
SNAPSHOT_STEPS = 40  # of which PyTorch's recorder keeps all entries
HEAP_PROGRAM = """import json
rows = [{"row %d" % i: [str(j) for j in range(i % 7)]} for i in range(60000)]
for _ in range(4):
    rows = json.loads(json.dumps(rows))
"""


def compiled(build, folder, name):
    program = folder / name
    flags = [f"-I{TREE}", "-D_GNU_SOURCE", BENCH / f"{name}.c", build / "libtracefmt.a", "-lzstd"]
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", program, *flags], check=True)
    return program


def run_job(build, options, *arguments):
    command = [build / "vramtrace", "run", "-q", "--simulate", "h100", "--simulate-values", "off", *options, "--"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*map(str, command), sys.executable, str(JOB), *map(str, arguments)], env=environment,
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench_format.py: the job ended with status {done.returncode}:\n{done.stderr}")


def measured(*command):
    """CPU seconds of a program, the most memory (bytes) that it held, and what it printed."""
    held = 0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=subprocess.DEVNULL)
        # Looked at while it runs: the maximum that wait4() tells includes this program's own, from before exec().
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            status = Path(f"/proc/{process.pid}/status").read_text()
            found = re.search(r"VmHWM:\s*(\d+) kB", status)
            held = int(found[1]) * 1024 if found else held
            time.sleep(0.01)
        _, status, usage = ended
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"bench_format.py: '{command[0]}' ended with status {process.returncode}")
        output.seek(0)
        return usage.ru_utime + usage.ru_stime, held, output.read()


def recorded_events(build, recording):
    done = subprocess.run([build / "vramtrace", "verify", "--json", recording], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["traces"][0]["events"]


def spread(values, form="{:.1f}"):
    low, high = form.format(min(values)), form.format(max(values))
    return f"{form.format(statistics.median(values))} ({low} to {high})"


class Format:
    """The contenders, and what was measured of them."""

    def __init__(self, build, folder, events):
        self.build, self.folder, self.events = build, folder, events
        self.repeat, self.read = (compiled(build, folder, name) for name in ("trace_repeat", "trace_read"))
        run_job(build, ["-o", folder / "job.vtr"], STEPS)
        (self.trace,) = (folder / "job.vtr").glob("*.vtr")
        self.long = folder / "long.vtr"
        self.rates = {name: [] for name in ("write", "read", "report")}
        self.report_s, self.report_bytes = [], []

    def run_write(self):
        done = json.loads(measured(self.repeat, self.trace, self.long, self.events)[2])
        self.written = done
        self.rates["write"].append(done["events"] / done["cpu_ns"] * 1e3)

    def run_read(self):
        done = json.loads(measured(self.read, self.long)[2])
        self.rates["read"].append(done["events"] / done["cpu_ns"] * 1e3)

    def run_report(self):
        seconds, held, _ = measured(self.build / "vramtrace", "report", "--json", self.long)
        self.report_s.append(seconds)
        self.report_bytes.append(held)
        self.rates["report"].append(self.written["events"] / seconds / 1e6)


class Heaptrack:
    def __init__(self, folder):
        program = folder / "heap.py"
        program.write_text(HEAP_PROGRAM)
        subprocess.run(["heaptrack", "-o", folder / "heap", sys.executable, program], check=True,
                       env=os.environ | {"PYTHONMALLOC": "malloc"}, capture_output=True)
        self.file = folder / "heap.zst"
        self.rates = []
        text = measured("heaptrack_print", self.file)[2]
        # heaptrack counts allocations; each that did not leak was freed
        allocations = int(re.search(r"calls to allocation functions: (\d+)", text)[1])
        raw = subprocess.run(["zstd", "-dcq", self.file], capture_output=True, check=True).stdout
        self.events = raw.count(b"\n+ ") + raw.count(b"\n- ")
        assert self.events >= allocations

    def run(self):
        self.rates.append(self.events / measured("heaptrack_print", self.file)[0] / 1e6)


def snapshot_size(build, folder):
    """PyTorch's snapshot of the same job: its bytes for an allocation or a free."""
    file = folder / "snapshot.pickle"
    run_job(build, ["--no-record"], SNAPSHOT_STEPS, "python", file)
    counted = subprocess.run([sys.executable, "-c", "import pickle, sys\nt = pickle.load(open(sys.argv[1], 'rb'))"
                              "['device_traces'][0]\nprint(sum(e['action'] in ('alloc', 'free_completed') for e in t))",
                              file], capture_output=True, text=True, check=True)
    return file.stat().st_size / int(counted.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=100_000_000)
    args = parser.parse_args()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
    if not (build / "vramtrace").exists():
        sys.exit(f"bench_format.py: '{build / 'vramtrace'}' is not built: run `make` first")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = Format(build, folder, args.events)
        heaptrack = Heaptrack(folder) if shutil.which("heaptrack") and shutil.which("zstd") else None
        full = folder / "full.vtr"
        run_job(build, ["-o", full, "--stacks", "full"], STEPS)
        ours.run_write()
        ours.rates["write"].clear()
        for _ in range(args.rounds):
            contenders = [ours.run_write, ours.run_read, ours.run_report] + ([heaptrack.run] if heaptrack else [])
            for run in random.sample(contenders, len(contenders)):
                run()
        sizes = {
            "vramtrace, --stacks python": ours.trace.stat().st_size / recorded_events(build, folder / "job.vtr"),
            "vramtrace, --stacks full": sum(f.stat().st_size for f in full.glob("*.vtr")) / recorded_events(build, full),
            "PyTorch's snapshot, stacks='python'": snapshot_size(build, folder),
        }
        if heaptrack:
            sizes["heaptrack, of another program"] = heaptrack.file.stat().st_size / heaptrack.events
    print(f"A trace of {ours.written['events']:,} events; medians of {args.rounds} rounds in random order, spread in "
          f"brackets; load now {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs.\n")
    print("| on one core | million events/s |\n|---|---|")
    titles = {"write": "written: taken from rings, merged, encoded, compressed (zstd 1), stored",
              "read": "read: decoded and replayed", "report": "`vramtrace report`"}
    for key, title in titles.items():
        print(f"| {title} | {spread(ours.rates[key])} |")
    if heaptrack:
        print(f"| `heaptrack_print`, of {heaptrack.events / 1e6:.1f} million | {spread(heaptrack.rates, '{:.2f}')} |")
    print(f"\nThe report took {spread(ours.report_s)} s of CPU time and {max(ours.report_bytes) / 2**20:.1f} MiB.\n")
    print("| file | bytes an event |\n|---|---|")
    for title, size in sizes.items():
        print(f"| {title} | {size:.2f} |")


if __name__ == "__main__":
    main()

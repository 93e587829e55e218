# SPDX-License-Identifier: MIT
"""
What export and html cost: seconds, memory, bytes written.

usage: bench_export.py [--events N] [--rounds N]     (`make bench`; the build is $VRAMTRACE_BUILD)

The steps of a GPT over and over, as a trace of so many events; each format is written of it, and the page of html, one after
the other in turn, the median of the rounds is shown. Beside them `report`, which reads the same and writes
nothing: what they take above that is theirs. At last the page is opened in Debian's browser, where it is there: how long until
it can be used.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
JOB = TREE / "tests" / "e2e" / "jobs" / "gpt.py"


def repeated(build, folder, nr_events):
    """The trace of the job, so long."""
    run = [build / "vramtrace", "run", "-q", "--simulate", "h100", "-o", folder / "job.vtr", "--", sys.executable, JOB]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    (trace,) = (folder / "job.vtr").glob("*.vtr")
    program, path = folder / "trace_repeat", folder / "long.vtr"
    command = ["cc", "-O2", "-D_GNU_SOURCE", f"-I{TREE}", "-o", program, TREE / "bench" / "trace_repeat.c"]
    subprocess.run([*command, build / "libtracefmt.a", "-lzstd", "-lxxhash"], check=True)
    subprocess.run([program, trace, path, str(nr_events)], check=True, stdout=subprocess.DEVNULL)
    return path


def formats(vramtrace):
    listed = subprocess.run([vramtrace, "export", "--list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines()]


def contenders(vramtrace, trace, output):
    yield "report", [vramtrace, "report", trace]
    for name in formats(vramtrace):
        yield name, [vramtrace, "export", "-f", name, "-o", output, trace]
    yield "ndjson.zst", [vramtrace, "export", "-f", "ndjson", "-o", f"{output}.zst", trace]
    yield "html", [vramtrace, "html", "-o", output, trace]


def timed(argv):
    """Seconds, and the most memory in MiB."""
    start = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert not status, argv
    return time.monotonic() - start, usage.ru_maxrss / 1024


def written(output):
    """Bytes of what a contender has written, which is removed."""
    paths = [path for path in (output, Path(f"{output}.zst")) if path.exists()]
    size = sum(path.stat().st_size for path in paths)
    for path in paths:
        path.unlink()
    return size


def opened_ms(page, rounds):
    """Milliseconds until the page has drawn itself and answers, by its own clock, each time in a new tab."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        for _ in range(rounds):
            tab = browser.new_page()
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-ready]")
            yield int(tab.evaluate("document.documentElement.dataset.ready"))
            tab.close()
        browser.close()


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def main():
    wanted = arguments()
    build = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).resolve()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        trace = repeated(build, Path(folder), wanted.events)
        seconds, memory, size = {}, {}, {}
        for _ in range(wanted.rounds):
            for name, argv in contenders(build / "vramtrace", trace, output):
                took, most = timed(argv)
                seconds.setdefault(name, []).append(took)
                memory[name] = max(most, memory.get(name, 0))
                size[name] = written(output)
        page = Path(folder) / "page.html"
        subprocess.run([build / "vramtrace", "html", "-o", page, trace], check=True, stderr=subprocess.DEVNULL)
        opened = list(opened_ms(page, wanted.rounds)) if shutil.which("chromium") else []
    print(f"| {wanted.events:,} events | time | of `report` | million events a second | memory | file |\n|---|---|---|---|---|---|")
    report = statistics.median(seconds["report"])
    for name, times in seconds.items():
        median = statistics.median(times)
        print(f"| {name} | {median:.2f} s | {median / report:.1f} | {wanted.events / median / 1e6:.2f} | "
              f"{memory[name]:.0f} MiB | {size[name] / 1e6:.1f} MB |")
    if opened:
        print(f"\nThe page answers after {statistics.median(opened):.0f} ms ({min(opened)} to {max(opened)}).")


main()

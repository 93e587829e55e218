# SPDX-License-Identifier: MIT
"""
What reading a memory snapshot costs: bench_import.py [ENTRIES...]     (`make bench`; the build is $VRAMTRACE_BUILD)

Snapshots with so many entries (200,000, and 4,000,000, which is a gigabyte), each with a list of 40 frames of its own, as
PyTorch's are; written opcode by opcode, since Python would need many times their size to make them. Beside it: pickle.load,
by which PyTorch's own scripts read them.
"""

import os
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FRAMES, DEPTH, STACKS, BLOCK = 2000, 40, 3000, 4 << 20
BASE, START_US = 0x7F0000000000, 1_700_000_000_000_000


class Writer:
    """A pickle of protocol 4, a few opcodes of it."""

    def __init__(self, file):
        self.file, self.nr_memo, self.texts = file, 0, {}

    def memoize(self):
        self.nr_memo += 1
        return b"\x94"

    @staticmethod
    def recall(number):
        return b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)

    def text(self, text):
        if text in self.texts:
            return self.recall(self.texts[text])
        self.texts[text] = self.nr_memo
        return b"\x8c" + bytes([len(text)]) + text.encode() + self.memoize()

    @staticmethod
    def number(value):
        return b"\x8a\x08" + struct.pack("<q", value)

    def begin(self, container):
        """A dict or list that takes what follows, up to `u` or `e`."""
        return container + self.memoize() + b"("


def write(path, nr_entries):
    chance = random.Random(1)
    with open(path, "wb") as file:
        w = Writer(file)
        file.write(b"\x80\x04" + w.begin(b"}") + w.text("frames to name again") + w.begin(b"]"))
        frames = []
        for number in range(FRAMES):
            frames.append(w.nr_memo)
            frame = w.begin(b"}") + w.text("name") + w.text(f"f{number}")
            frame += w.text("filename") + w.text(f"/usr/lib/torch/x{number % 50}.py")
            file.write(frame + w.text("line") + w.number(number) + b"u")
        file.write(b"e" + w.text("segments") + b"]" + w.memoize())
        file.write(w.text("device_traces") + b"]" + w.memoize() + w.begin(b"]"))
        stacks = [b"".join(w.recall(chance.choice(frames)) for _ in range(DEPTH)) for _ in range(STACKS)]

        def entry(number, action, address, size):
            made = w.begin(b"}") + w.text("action") + w.text(action) + w.text("addr") + w.number(address)
            made += w.text("size") + w.number(size) + w.text("stream") + b"K\x00"
            made += w.text("time_us") + w.number(START_US + 3 * number) + w.text("frames")
            file.write(made + w.begin(b"]") + chance.choice(stacks) + b"eu")

        free, live, number = list(range(40_000)), [], 1
        chance.shuffle(free)
        entry(0, "segment_alloc", BASE, len(free) * BLOCK)
        while number < nr_entries:
            if live and (chance.random() < 0.5 or not free):
                at, size = live.pop()
                free.append(at)
                entry(number, "free_requested", BASE + at * BLOCK, size)
                entry(number + 1, "free_completed", BASE + at * BLOCK, size)
                number += 2
            else:
                live.append((free.pop(), chance.randrange(1 << 20, BLOCK)))
                entry(number, "alloc", BASE + live[-1][0] * BLOCK, live[-1][1])
                number += 1
            if number % 1000 < 2:
                file.write(b"e(")
        file.write(b"eau.")


def timed(argv):
    """Seconds, seconds of the processor, and the most memory in MiB."""
    start = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert not status, argv
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def show(what, path, figures):
    seconds, processor, memory = figures
    print(f"| {what} | {path.stat().st_size / 1e6:.0f} MB | {seconds:.1f} s | {processor:.1f} s | {memory:.0f} MiB |", flush=True)


def main():
    vramtrace = Path(os.environ.get("VRAMTRACE_BUILD", Path(__file__).resolve().parents[1] / "build")) / "vramtrace"
    sizes = [int(word) for word in sys.argv[1:]] or [200_000, 4_000_000]
    print("| | file | time | of the processor | memory |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            path = Path(folder) / f"{size}.pickle"
            write(path, size)
            show(f"import, {size:,} entries", path, timed([vramtrace, "import", path, "-o", f"{folder}/{size}.vtr"]))
            load = f"import pickle; pickle.load(open({str(path)!r}, 'rb'))"
            show(f"pickle.load, {size:,} entries", path, timed([sys.executable, "-c", load]))
            if size == sizes[0]:
                with open(path, "rb") as file:
                    assert len(pickle.load(file)["device_traces"][0]) >= size
            path.unlink()


main()

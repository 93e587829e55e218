# SPDX-License-Identifier: MIT
"""Holds so much memory and so many Python objects, and allocates on the GPU while it is told to.

usage: census_job.py RESIDENT_MIB OBJECTS small|huge     pages of 4 KiB, or as large as the kernel gives them
Its first line is JSON: pid, resident MiB, objects that Python's collector follows. Each line of the standard input has it
allocate every 2 ms for so many seconds; the answer is how long the longest of these calls took, stall_ns, and the most
processor time that one took, stall_cpu_ns.
"""

import gc
import json
import mmap
import os
import sys
import time
from pathlib import Path

import torch

MIB = 1 << 20
PIECE_MIB = 16
PAUSE_S = 0.002


class Node:
    def __init__(self, number):
        self.items = [number]
        self.table = {"number": number, "list": []}
        self.pair = (number, self.items)


def resident_mib():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // MIB


def fill(until_mib, huge):
    """Private memory, which a copy shares page by page; of a huge page one entry is copied instead of 512."""
    pieces = []
    while resident_mib() < until_mib:
        piece = mmap.mmap(-1, PIECE_MIB * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if not huge:
            piece.madvise(mmap.MADV_NOHUGEPAGE)
        else:
            piece.madvise(mmap.MADV_HUGEPAGE)
        piece.write(b"\1" * (PIECE_MIB * MIB))
        pieces.append(piece)
    return pieces


def allocate(seconds):
    longest, longest_cpu, until = 0, 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        before, before_cpu = time.perf_counter_ns(), time.thread_time_ns()
        torch.empty(1 << 16, device="cuda")
        longest_cpu = max(longest_cpu, time.thread_time_ns() - before_cpu)
        longest = max(longest, time.perf_counter_ns() - before)
        time.sleep(PAUSE_S)
    return {"stall_ns": longest, "stall_cpu_ns": longest_cpu}


def main():
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64, device="cuda") for _ in range(64)])
    nodes = []
    while len(gc.get_objects()) < int(sys.argv[2]):
        nodes += [Node(number) for number in range(2000)]
    gc.collect()
    gc.disable()  # a collection in the middle would be the longest call
    pieces = fill(int(sys.argv[1]), sys.argv[3] == "huge")
    allocate(0.5)
    said = {"pid": os.getpid(), "resident_mib": resident_mib(), "objects": len(gc.get_objects())}
    print(json.dumps(said), flush=True)
    for line in sys.stdin:
        print(json.dumps(allocate(float(line))), flush=True)
    return model, nodes, pieces


if __name__ == "__main__":
    main()

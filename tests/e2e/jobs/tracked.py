# SPDX-License-Identifier: MIT
"""Asks for odd sizes, uses a block on two streams, and runs out of memory, with and without luck.

usage: tracked.py [FRACTION]     of the GPU that PyTorch may use
"""

import sys

import torch

from ledger import print_ledger

GIB = 1 << 30

if len(sys.argv) > 1:
    torch.cuda.set_per_process_memory_fraction(float(sys.argv[1]))
capacity = int(torch.cuda.get_device_properties(0).total_memory * float((sys.argv[1:] or [1])[0]))
odd = [torch.empty(1000 * i + 7, device="cuda") for i in range(1, 40)]
del odd[::2]

with torch.cuda.stream(torch.cuda.Stream()):
    shared = torch.empty(5_000_001, device="cuda")
shared.record_stream(torch.cuda.default_stream())
del shared

# What is cached does not fit the next request: it is given back, and then it fits; the one after that does not.
cached = [torch.empty(capacity // 8, dtype=torch.uint8, device="cuda") for _ in range(3)]
del cached
large = torch.empty(capacity * 3 // 4, dtype=torch.uint8, device="cuda")
try:
    torch.empty(capacity * 3 // 4, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    print("out of memory")
del large
torch.cuda.empty_cache()  # no retry
last = torch.empty(3, device="cuda")

stats = torch.cuda.memory_stats()
print_ledger(requested_peak=stats["requested_bytes.all.peak"], segments=stats["segment.all.allocated"])

# SPDX-License-Identifier: MIT
"""What PyTorch's own allocator counted, as one JSON line: the truth that the tests compare a report with."""

import json

import torch

COUNTERS = (
    "allocation.all.allocated",
    "allocation.all.freed",
    "allocated_bytes.all.peak",
    "allocated_bytes.all.current",
    "reserved_bytes.all.peak",
    "reserved_bytes.all.current",
    "num_ooms",
    "num_alloc_retries",
)


def print_ledger(**more):
    """Print the counters of device 0 and `more`. Nothing may be allocated or freed on the GPU afterwards,
    so a job calls this as its last statement, at module level: what a function holds is freed when it returns."""
    stats = torch.cuda.memory_stats()
    print(json.dumps({name: stats[name] for name in COUNTERS} | more), flush=True)

# SPDX-License-Identifier: MIT
"""Jobs in parts: after each part one JSON line says what PyTorch's allocator has counted since the start."""

import json

import torch

from ledger import COUNTERS, print_ledger


def part(function):
    """Decorator: run the part at once and print the counters when all that it held is freed."""
    function()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    name = function.__name__.replace("_", "-")
    print(json.dumps({"part": name} | {counter: stats[counter] for counter in COUNTERS}), flush=True)


__all__ = ["part", "print_ledger"]

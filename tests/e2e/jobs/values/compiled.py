# SPDX-License-Identifier: MIT
"""torch.compile, before or after the device is first used: prints what was compiled and what it allocated.

usage: compiled.py BACKEND early|late
"""

import json
import sys

import torch


def layer(x, w):
    return torch.nn.functional.gelu(x @ w) + 1


backend, when = sys.argv[1:]
if when == "early":
    compiled = torch.compile(layer, backend=backend)
x = torch.ones(256, 256, device="cuda", requires_grad=True)
w = torch.ones(256, 256, device="cuda")
before = (torch.arange(10, device="cuda") > 3).sum().item()
if when == "late":
    compiled = torch.compile(layer, backend=backend)
for _ in range(3):
    compiled(x, w).sum().backward()

from torch._dynamo.utils import counters

stats = torch.cuda.memory_stats()
print(
    json.dumps(
        {
            "before": before,
            "counters": {group: dict(counters[group]) for group in ("frames", "stats", "aot_autograd", "inductor")},
            "allocations": stats["allocation.all.allocated"],
            "peak": stats["allocated_bytes.all.peak"],
            "reserved": stats["reserved_bytes.all.peak"],
        }
    )
)

# SPDX-License-Identifier: MIT
"""Tensors of many sizes that come and go, a gap that only another placing fills, and one request that is too large."""

import random
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e" / "jobs"))
from ledger import print_ledger  # noqa: E402

MIB = 1 << 20
rng = random.Random(7)
kept = []
for _ in range(2000):
    kept.append(torch.empty(rng.choice([1, 700, 3 * MIB // 2, 20 * MIB, 33 * MIB]), dtype=torch.uint8, device="cuda"))
    if len(kept) > 40:
        del kept[rng.randrange(len(kept))]
try:
    torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    print("too much")
del kept[::2]
torch.cuda.empty_cache()
large = torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print_ledger()

# SPDX-License-Identifier: MIT
"""Allocates and frees for ever, or --limit times, and stores the number of allocations made after each one."""

import argparse

import torch

from counter import Counter
from ledger import print_ledger

parser = argparse.ArgumentParser()
parser.add_argument("--counter")
parser.add_argument("--limit", type=int, default=10**9)
args = parser.parse_args()
counter = Counter(args.counter)

kept = [None] * 64
for number in range(args.limit):
    slot = number % len(kept)
    kept[slot] = None
    kept[slot] = torch.empty(256 * (1 + number % 300), device="cuda")
    counter.store(number + 1)

print_ledger()

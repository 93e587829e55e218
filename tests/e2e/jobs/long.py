# SPDX-License-Identifier: MIT
"""
A long job in small: its peak comes early, then many steps of training that keep a little more each time, and at last
an allocation that cannot be had.
"""

import argparse
import random

import torch
from torch import nn

from ledger import print_ledger

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=6000)
parser.add_argument("--accumulate", type=int, default=1, help="backward passes of a step")
args = parser.parse_args()
chance = random.Random(20260101)

model = nn.Sequential(nn.Linear(64, 128, device="cuda"), nn.ReLU(), nn.Linear(128, 8, device="cuda"))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
del [torch.empty(1 << 28, device="cuda")][:]
kept = []
for step in range(args.steps):
    for _ in range(args.accumulate):
        x = torch.empty(chance.randrange(1, 3000), 64, device="cuda")
        model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 100 == 0:
        kept.append(torch.empty(1000 + step, device="cuda"))
try:
    torch.empty(1 << 40, device="cuda")
except torch.OutOfMemoryError:
    kept.append(None)
x = None

print_ledger(steps=args.steps)

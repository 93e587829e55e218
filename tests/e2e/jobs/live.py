# SPDX-License-Identifier: MIT
"""
A job to be watched while it runs. Each step of training keeps --keep MiB more, says on stdout that it has ended, and is
followed by a pause. Without --steps it goes on until it is ended. With --waves the steps are done again and again, what they
kept is given back after each, and it stays at the top and at the bottom for a while.
"""

import argparse
import itertools
import time

import torch
from torch import nn

WAIT_S = 4  # more than the recorder may take to write what has happened

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--keep", type=int, default=16, help="MiB")
parser.add_argument("--pause", type=float, default=0.1, help="seconds")
parser.add_argument("--waves", type=int, default=0)
args = parser.parse_args()
model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def train():
    history = []
    for step in itertools.count() if args.steps is None else range(args.steps):
        model(torch.randn(256, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        history.append(torch.empty(args.keep << 20, dtype=torch.uint8, device="cuda"))
        print(f"step {step + 1}", flush=True)
        time.sleep(args.pause)
    return history


if args.waves:
    for _ in range(args.waves):
        kept = train()
        time.sleep(WAIT_S)
        kept.clear()
        torch.cuda.empty_cache()
        time.sleep(WAIT_S)
else:
    kept = train()

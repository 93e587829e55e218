# SPDX-License-Identifier: MIT
"""
A job to be watched while it runs. Each step of training keeps --keep MiB more, says on stdout that it has ended, and is
followed by a pause. Without --steps it goes on until it is ended. With --waves the steps are done again and again, what they
kept is given back after each, and it stays at the top and at the bottom for a while. With --devices the second GPU keeps
twice as much, the third three times, ...; with --ranks so many processes do that, each on a GPU of its own.
"""

import argparse
import itertools
import os
import subprocess
import sys
import time

import torch
from torch import nn

WAIT_S = 4  # more than the recorder may take to write what has happened

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--keep", type=int, default=16, help="MiB")
parser.add_argument("--pause", type=float, default=0.1, help="seconds")
parser.add_argument("--waves", type=int, default=0)
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--ranks", type=int, default=0)
args = parser.parse_args()
if args.ranks:
    command, world = [sys.executable, *sys.argv, "--ranks", "0"], {"WORLD_SIZE": str(args.ranks)}
    jobs = [
        subprocess.Popen(command, env=os.environ | world | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(args.ranks)
    ]
    raise SystemExit(max(job.wait() != 0 for job in jobs))
rank = int(os.environ.get("LOCAL_RANK", 0))
torch.cuda.set_device(rank)
model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def train():
    history = []
    for step in itertools.count() if args.steps is None else range(args.steps):
        model(torch.randn(256, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        for device in range(rank, rank + args.devices):
            history.append(torch.empty(args.keep * (1 + device) << 20, dtype=torch.uint8, device=f"cuda:{device}"))
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

# SPDX-License-Identifier: MIT
"""
A job to be watched: live.py STEPS PAUSE KEPT. Each step of training keeps KEPT more MiB and takes PAUSE seconds; it says when
a step has ended. At the end it waits to be killed if STEPS is 0, having gone on until then.
"""

import itertools
import sys
import time

import torch
from torch import nn

STEPS, PAUSE, KEPT = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])


def train(model, optimizer):
    history = []
    for step in range(STEPS) if STEPS else itertools.count():
        model(torch.randn(256, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        history.append(torch.empty(KEPT << 20, dtype=torch.uint8, device="cuda"))
        print(f"step {step + 1}", flush=True)
        time.sleep(PAUSE)
    return history


network = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
kept = train(network, torch.optim.AdamW(network.parameters(), lr=1e-3))

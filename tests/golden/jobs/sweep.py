# SPDX-License-Identifier: MIT
"""Few events, of many kinds, in several frames: what tests/unit/test_sweep.c cuts and changes everywhere."""

import time

import torch

weight = torch.randn(512, 512, device="cuda", requires_grad=True)
kept = None
for step in range(1, 5):
    loss = (weight * weight).sum()
    loss.backward()
    weight.grad = None
    del loss
    kept = torch.empty(300_000 * step, device="cuda")
    time.sleep(0.4)
pinned = torch.empty(16, pin_memory=True)
del kept
torch.cuda.empty_cache()

# SPDX-License-Identifier: MIT
"""A model that torch.compile runs as CUDA graphs (reduce-overhead): their memory comes from pools of their own."""

import torch
from torch import nn

model = torch.compile(nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda(), mode="reduce-overhead")
x = torch.ones(64, 512, device="cuda")
for _ in range(6):
    torch.compiler.cudagraph_mark_step_begin()
    model(x).sum().backward()
torch.cuda.synchronize()
print("six steps")

# SPDX-License-Identifier: MIT
"""Trains with an allocator that is not PyTorch's: pluggable.py LIBRARY."""

import sys

import torch

allocator = torch.cuda.memory.CUDAPluggableAllocator(sys.argv[1], "plain_malloc", "plain_free")
torch.cuda.memory.change_current_allocator(allocator)
model = torch.nn.Linear(1024, 1024).cuda()
for _ in range(3):
    model(torch.randn(8, 1024, device="cuda")).sum().backward()
print("trained")

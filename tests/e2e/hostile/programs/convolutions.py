# SPDX-License-Identifier: MIT
"""Trains convolutions with cudnn.benchmark on; an argument is the batch."""

import sys

import torch

batch = int(sys.argv[1]) if len(sys.argv) > 1 else 8
torch.backends.cudnn.benchmark = True
model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 7), torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3)).cuda()
for _ in range(3):
    model(torch.randn(batch, 3, 224, 224, device="cuda")).sum().backward()

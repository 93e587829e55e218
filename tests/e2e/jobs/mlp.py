# SPDX-License-Identifier: MIT
"""A wide multi-layer perceptron in fp32, as plain as training gets."""

import torch
from torch import nn

from ledger import print_ledger

WIDTH, DEPTH, BATCH, STEPS = 8192, 8, 16384, 3

layers = [module for _ in range(DEPTH) for module in (nn.Linear(WIDTH, WIDTH, device="cuda"), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(WIDTH, 1000, device="cuda"))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

for step in range(STEPS):
    x = torch.randn(BATCH, WIDTH, device="cuda")
    target = torch.randint(0, 1000, (BATCH,), device="cuda")
    loss = nn.functional.cross_entropy(model(x), target)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.4f}")

print_ledger()

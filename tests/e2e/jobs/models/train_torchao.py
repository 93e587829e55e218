# SPDX-License-Identifier: MIT
"""torchao: a model quantized to 8 and 4 bits, then training with an 8-bit Adam and with float8 products."""

import os

import torch
from torch import nn
from torchao.float8 import convert_to_float8_training
from torchao.optim import AdamW8bit
from torchao.quantization import Int8WeightOnlyConfig, quantize_

from ledger import print_ledger

WIDTH, BATCH, STEPS = 1024, 16, 3


def make_model():
    layers = [nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)]
    return nn.Sequential(*layers).to("cuda", torch.bfloat16)


def batch():
    return torch.randn(BATCH, WIDTH, device="cuda", dtype=torch.bfloat16)


frozen = make_model().eval()
before = torch.cuda.memory_allocated()
quantize_(frozen, Int8WeightOnlyConfig(version=2))
assert torch.cuda.memory_allocated() < before
with torch.no_grad():
    frozen(batch())

model = convert_to_float8_training(make_model())
optimizer = AdamW8bit(model.parameters(), lr=1e-4)
for step in range(STEPS):
    loss = model(batch()).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.4f}")

print_ledger(pid=os.getpid())

# SPDX-License-Identifier: MIT
"""bitsandbytes: LoRA-like training on 4-bit and 8-bit weights with an 8-bit, paged Adam."""

import os

import bitsandbytes
import torch
from torch import nn

from ledger import print_ledger

WIDTH, BATCH, STEPS = 1024, 16, 3


class Adapted(nn.Module):
    """A frozen quantized layer and a trained path of low rank beside it."""

    def __init__(self, frozen):
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down, self.up = nn.Linear(WIDTH, 8, dtype=torch.bfloat16), nn.Linear(8, WIDTH, dtype=torch.bfloat16)

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x))


quantized = bitsandbytes.nn.Linear4bit(WIDTH, WIDTH, compute_dtype=torch.bfloat16, quant_type="nf4")
eight_bit = bitsandbytes.nn.Linear8bitLt(WIDTH, WIDTH, has_fp16_weights=False)
model = nn.Sequential(Adapted(quantized), nn.GELU(), Adapted(eight_bit), nn.Linear(WIDTH, WIDTH, dtype=torch.bfloat16))
model = model.cuda()
assert quantized.weight.dtype == torch.uint8 and eight_bit.weight.dtype == torch.int8
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizers = [
    bitsandbytes.optim.AdamW8bit(trained[:4], lr=1e-4),
    bitsandbytes.optim.PagedAdamW8bit(trained[4:], lr=1e-4),
]

for step in range(STEPS):
    output = model(torch.randn(BATCH, WIDTH, device="cuda", dtype=torch.bfloat16))
    loss = output.float().square().mean()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.4f}")

print_ledger(pid=os.getpid())

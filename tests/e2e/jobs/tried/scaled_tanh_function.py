# SPDX-License-Identifier: MIT
"""Regression with an MLP that uses a hand-written activation with a learnable scale."""

import torch
from torch import nn


class ScaledTanh(torch.autograd.Function):
    """y = s * tanh(x), with the derivative expressed by y."""

    @staticmethod
    def forward(ctx, x, scale):
        y = torch.tanh(x) * scale
        ctx.y = y
        ctx.scale = scale
        return y

    @staticmethod
    def backward(ctx, grad):
        t = ctx.y / ctx.scale
        return grad * ctx.scale * (1 - t * t), (grad * t).sum()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x + ScaledTanh.apply(self.fc(self.norm(x)), self.scale)


class Surrogate(nn.Module):
    """Maps parameters of a simulation to its outcome."""

    def __init__(self, inputs=24, width=1024, depth=4):
        super().__init__()
        self.inp = nn.Linear(inputs, width)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.out = nn.Linear(width, 3)

    def forward(self, x):
        return self.out(self.blocks(self.inp(x)))


def main():
    torch.manual_seed(0)
    model = Surrogate().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)
    for _ in range(200):
        x = torch.rand(5120, 24, device="cuda")
        target = torch.stack([x.sum(1), x.prod(1), x.amax(1)], dim=1)
        loss = nn.functional.huber_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


main()

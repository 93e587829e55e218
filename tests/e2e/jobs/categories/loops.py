# SPDX-License-Identifier: MIT
"""A model whose forward does more than call the members of its lists, and has a chain of equal layers."""

import torch
from torch import nn
from torch.nn import functional

from truth import Truth

truth = Truth()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.parts = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])

    def forward(self, x):
        x = self.norm(x)
        for part in self.parts:
            x = x + torch.tanh(part(x))
        return x


class Network(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.first = nn.Linear(64, width)
        self.down = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.blocks = nn.ModuleList([Block(width) for _ in range(3)])
        self.up = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(3)])
        self.chain = nn.Sequential(*[nn.Linear(width, width) for _ in range(4)])

    def go_up(self, x, kept):
        for layer in self.up:
            x = torch.cat([x, kept.pop()], dim=1)
            x = functional.relu(layer(x))
        return x

    def forward(self, x):
        x, kept = self.first(x), []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
            x = functional.relu(x)
        for block in self.blocks:
            x = block(x)
        return self.chain(self.go_up(x, kept))


with truth.watch():
    model = Network().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    truth.model(model)
    truth.optimizer(optimizer)
    for _ in range(3):
        model(torch.randn(1024, 64, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
truth.tell()

# SPDX-License-Identifier: MIT
"""Modules whose order is the source's: loops within loops, lists gone through again, called by functions, in other orders."""

import torch
from torch import nn

from truth import Truth

ROUNDS = 2

truth = Truth()


class Part(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.line = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + torch.tanh(self.line(self.norm(x)))


class Stage(nn.Module):
    """It begins with a loop, and ends with it."""

    def __init__(self, width):
        super().__init__()
        self.parts = nn.ModuleList([Part(width) for _ in range(3)])

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


def call(module, x):
    return module(x)


def block(width):
    return nn.Sequential(
        nn.Linear(width, width),
        nn.Tanh(),
    )


class Network(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.stages = nn.ModuleList([Stage(width) for _ in range(3)])
        self.again = nn.ModuleList([Part(width) for _ in range(3)])
        self.helped = nn.ModuleList([Part(width) for _ in range(3)])
        self.pairs = nn.ModuleList([nn.ModuleList([nn.Linear(width, width), nn.Linear(width, width)]) for _ in range(2)])
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.blocks = nn.ModuleList([block(width), block(width), block(width)])

    def run(self, part, x):
        return part(x)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
            x = torch.sigmoid(x)
        for _ in range(ROUNDS):
            x = x * 0.5
            for part in self.again:
                x = part(x)
        x = self.run(self.helped[0], x)
        for i in range(1, len(self.helped)):
            x = call(self.helped[i], x)
        for first, second in self.pairs:
            x = second(torch.tanh(first(x)))
        query, key = (project(x) for project in (self.query, self.key))
        x = query * key
        for part in self.blocks:
            x = part(x)
        return x


with truth.watch():
    model = Network().cuda()
    optimizer = torch.optim.SGD(model.parameters())
    truth.model(model)
    for _ in range(2):
        model(torch.randn(1024, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
truth.tell()

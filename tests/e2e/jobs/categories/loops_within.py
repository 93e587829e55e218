# SPDX-License-Identifier: MIT
"""A model whose layers call lists of their own in loops: with a part left out in the first round, nothing in between."""

import torch
from torch import nn
from torch.nn import functional

from truth import Truth

EXPERTS = 4

truth = Truth()


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        return self.down(functional.silu(self.up(x)))


class Layer(nn.Module):
    """Its loop over experts is its own."""

    def __init__(self, width):
        super().__init__()
        self.inner, self.gate = nn.Linear(width, width), nn.Linear(width, EXPERTS)
        self.experts = nn.ModuleList(Expert(width) for _ in range(EXPERTS))

    def forward(self, x):
        x = torch.tanh(self.inner(x))
        share, out = self.gate(x).softmax(-1), torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = torch.arange(i, len(x), EXPERTS, device=x.device)
            out[rows] += expert(x[rows]) * share[rows, i : i + 1]
        return out


class LayerWithHelper(Layer):
    """Its loop over experts is a function's that it calls."""

    def mix(self, x, share):
        out = torch.zeros_like(x)
        for i in range(EXPERTS):
            rows = torch.arange(i, len(x), EXPERTS, device=x.device)
            out = out.index_add(0, rows, self.experts[i](torch.tanh(x[rows])) * share[rows, i, None])
        return out

    def forward(self, x):
        return self.mix(self.inner(x), self.gate(x).softmax(-1))


class Network(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.stages = nn.ModuleList([nn.Linear(4 * width, width), *(nn.Linear(width, width) for _ in range(2))])
        self.chain = nn.ModuleList([nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)) for _ in range(3)])
        self.refined = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.layers = nn.ModuleList(Layer(width) for _ in range(3))
        self.more = nn.ModuleList(LayerWithHelper(width) for _ in range(3))

    def forward(self, x):
        for i, stage in enumerate(self.stages):
            if i:
                x = torch.sigmoid(x)
            x = stage(x)
        for part in self.chain:
            x = part(x)
        for _ in range(4):
            x = self.refined(x)
        for layer in self.layers:
            x = x + layer(x)
        for layer in self.more:
            x = x + layer(x)
        return x


with truth.watch():
    model = Network().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    truth.model(model)
    truth.optimizer(optimizer)
    for _ in range(3):
        model(torch.randn(2048, 1024, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
truth.tell()

# SPDX-License-Identifier: MIT
"""A model that calls its parts in other ways: by another name than self, by number, in pairs, unseen ones between."""

import torch
from torch import nn

from truth import Truth

truth = Truth()


class Gate(nn.Module):
    def __init__(this, width):
        super().__init__()
        this.up, this.down = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        this.out = nn.Linear(2 * width, width)

    def forward(
        this,
        x,
    ):
        return this.out(torch.sigmoid(this.up(x)) * this.down(x))


class Network(nn.Module):
    def __init__(net, width=512):
        super().__init__()
        net.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        net.gates = nn.ModuleList([Gate(width) for _ in range(3)])
        net.pair = nn.ModuleList([nn.Linear(width, width), nn.Linear(width, 4 * width)])
        net.tail=nn.Sequential(
            nn.Flatten(), nn.Linear(4 * width, width), nn.Tanh(), nn.ReLU(inplace=True),  # two that allocate nothing
            nn.Identity(), nn.Linear(width, 3 * width),
        )

    def forward(net, x):
        for norm, gate in zip(net.norms, net.gates):
            x = x + gate(norm(x))
        return net.tail(net.pair[1](torch.tanh(net.pair[0](x))))


with truth.watch():
    model = Network().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    truth.model(model)
    truth.optimizer(optimizer)
    for net, x in zip(range(3), range(3)):  # names that mean something else here
        model(torch.randn(1024, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
truth.tell()

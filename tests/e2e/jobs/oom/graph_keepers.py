# SPDX-License-Identifier: MIT
"""
A loop in which one tensor goes on from step to step, and with it the graphs of all steps, until memory has run out:
graph_keepers.py in_sum|in_state|in_average
"""

import sys

import torch
from torch import nn

ROWS, WIDTH = 1 << 15, 1 << 10


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 64))

    def forward(self, x):
        return self.layers(x)


class Agent:
    def __init__(self, model):
        self.model, self.cell = model, nn.GRUCell(64, 64).cuda()
        self.state = torch.zeros(ROWS, 64, device="cuda")

    def act(self, rows):
        self.state = self.cell(self.model(rows), self.state)
        return self.state.argmax(1)


class Center:
    def __init__(self):
        self.value = torch.zeros(64, device="cuda")

    def update(self, outputs):
        self.value = 0.9 * self.value + 0.1 * outputs.mean(0)


def rows_of_a_step():
    return torch.randn(ROWS, WIDTH, device="cuda")


def in_sum(model, optimizer):
    """An evaluation that adds up its losses."""
    total = 0.0
    for _ in range(1000):
        outputs = model(rows_of_a_step())
        loss = outputs.square().mean()
        total += loss
    print(total)


def in_state(model, optimizer):
    """An agent that acts with its graph, beside a model that is trained."""
    agent = Agent(model)
    for _ in range(1000):
        actions = agent.act(rows_of_a_step())
        loss = model(rows_of_a_step()[:64]).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(actions)


def in_average(model, optimizer):
    """A teacher whose outputs are averaged with their graphs."""
    teacher, center = Body().cuda(), Center()
    for _ in range(1000):
        rows = rows_of_a_step()
        targets = [teacher(part) for part in rows.chunk(2)]
        loss = (model(rows) - center.value.detach()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        center.update(torch.cat(targets))


def main():
    model = Body().cuda()
    globals()[sys.argv[1]](model, torch.optim.SGD(model.parameters(), lr=1e-3))


main()

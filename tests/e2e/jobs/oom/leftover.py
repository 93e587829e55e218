# SPDX-License-Identifier: MIT
"""Programs that run out of memory over what is left of earlier work, or was never meant to be there: leftover.py CAUSE"""

import functools
import sys

import torch
from torch import nn

DEVICE = "cuda"


class Branch:
    """A position of a plant that is drawn, what has grown of it, and what it has grown of."""

    def __init__(self, state, stem=None):
        self.state, self.stem, self.shoots = state, stem, []

    def grow(self, rule, nr):
        for _ in range(nr):
            self.shoots.append(Branch(rule(self.state), self))  # called: branches


class Rule(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, state):
        return torch.tanh(self.mix(state))  # planted: branches


@torch.no_grad()
def branches():
    """Of what is tried out the best is gone on with, and leads to all that it has come of, with what was tried beside it."""
    rule = Rule().to(DEVICE).eval()
    tip = Branch(torch.zeros(1, 16, 512, 512, device=DEVICE))
    for _ in range(100):
        tip.grow(rule, 6)
        for shoot in tip.shoots:
            shoot.grow(rule, 2)
        tip = tip.shoots[0]


class Spring(nn.Module):
    def __init__(self):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(64, 512), nn.Softplus(), nn.Linear(512, 512), nn.Softplus(), nn.Linear(512, 1))

    def pull(self, spot):
        spot = spot.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.energy(spot).sum(), spot, create_graph=True)  # planted: orbits
        return -slope


def orbits():
    """Forces are learnt by their gradients; the paths that are drawn by them afterwards lead through the graphs of all."""
    spring = Spring().to(DEVICE)
    optimizer = torch.optim.Adam(spring.parameters())
    for _ in range(6):
        spot = torch.randn(256, 64, device=DEVICE)
        (spring.pull(spot) + spot).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    spot, speed = torch.randn(4096, 64, device=DEVICE), torch.zeros(4096, 64, device=DEVICE)
    for _ in range(400):
        speed = speed + 0.01 * spring.pull(spot)
        spot = spot + 0.01 * speed


def meadows():
    """What is to stay as it is takes part in the first step as if it were trained, for want of one letter."""
    known = nn.Sequential(*[layer for _ in range(24) for layer in (nn.Linear(1024, 1024), nn.GELU())]).to(DEVICE)
    for weight in known.parameters():
        weight.require_grad = False
    told = nn.Linear(1024, 4).to(DEVICE)
    optimizer = torch.optim.AdamW(told.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        told(known(torch.randn(30000, 1024, device=DEVICE))).square().mean().backward()  # planted: meadows
        optimizer.step()


class Slanted(nn.Module):
    def forward(self, read, true):
        apart = read - true  # planted: gauges
        return torch.where(apart.abs() < 1, apart.square(), 2 * apart).mean()


def gauges():
    """What is read off is a column, and what is true a row: of a few rows nobody has seen that they were paired."""
    model, slanted = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1)).to(DEVICE), Slanted()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(12):
        slanted(model(torch.randn(1024, 32, device=DEVICE)), torch.randn(1024, device=DEVICE)).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        slanted(model(torch.randn(25000, 32, device=DEVICE)), torch.randn(25000, device=DEVICE)).item()  # called: gauges


def hashes():
    """Of a long table each batch looks up a few rows; its gradient and the optimizer's state have all."""
    table, told = nn.EmbeddingBag(2_000_000, 128).to(DEVICE), nn.Linear(128, 16).to(DEVICE)
    optimizer = torch.optim.Adam([*table.parameters(), *told.parameters()])
    for _ in range(4):
        told(table(torch.randint(2_000_000, (512, 20), device=DEVICE))).square().mean().backward()
        optimizer.step()  # planted: hashes
        optimizer.zero_grad()


class Chapter:
    def __init__(self):
        self.openings = []


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(256, 256)

    def forward(self, words):
        return torch.tanh(self.layer(words))  # planted: chapters


@torch.inference_mode()
def chapters():
    """Each chapter keeps the first word's row of each page, and by it those of all words."""
    reader, book = Reader().to(DEVICE).eval(), [Chapter() for _ in range(12)]
    for chapter in book:
        for _ in range(20):
            page = reader(torch.randn(32, 512, 256, device=DEVICE))  # called: chapters
            chapter.openings.append(page[:, 0])


@torch.inference_mode()
def herbs():
    """Of each sheet the rows are told apart by their names, and each row leads to all words of all of them."""
    reader, known = Reader().to(DEVICE).eval(), {}
    for sheet in range(400):
        words = reader(torch.randn(32, 512, 256, device=DEVICE))  # called: herbs
        for number, row in enumerate(words[:, 0]):
            known[f"sheet{sheet}/row{number}"] = row


def blown(sand, wind, lee):
    return torch.tanh(sand + wind * (sand - sand.roll(1, dims=3)) * lee)  # planted: dunes


def dunes():
    """What blows for a year before anything is compared is part of the graph as well; a column of the field is no query."""
    wind, lee = torch.zeros(1, 4, 1, 1, device=DEVICE, requires_grad=True), torch.rand(1, 4, 768, 1, device=DEVICE)
    optimizer, seen = torch.optim.Adam([wind]), torch.rand(1, 4, 768, 768, device=DEVICE)
    for _ in range(3):
        optimizer.zero_grad()
        sand = torch.rand(1, 4, 768, 768, device=DEVICE)
        for _ in range(400):
            sand = blown(sand, wind, lee)  # called: dunes
        (sand - seen).square().mean().backward()
        optimizer.step()


def cast(body, angle):
    turn = torch.tensor([[[1, angle, 0, 0], [-angle, 1, 0, 0], [0, 0, 1, 0]]], device=DEVICE)
    grid = nn.functional.affine_grid(turn, list(body.shape), align_corners=False)  # planted: shadows
    return nn.functional.grid_sample(body, grid, align_corners=False).sum(2)


def shadows():
    """A body is found by its shadows; what they lack is summed up over all angles, and the sum has where each was looked."""
    body = torch.zeros(1, 1, 160, 160, 160, device=DEVICE, requires_grad=True)
    optimizer, shadow = torch.optim.Adam([body]), torch.rand(1, 1, 160, 160, device=DEVICE)
    for _ in range(3):
        optimizer.zero_grad()
        lacks = body.square().mean()
        for number in range(200):
            lacks = lacks + (cast(body, number / 200) - shadow).square().mean()  # called: shadows
        lacks.backward()
        optimizer.step()


def negatives():
    """All of an archive is developed at once, which makes a float of each of its bytes."""
    archive = torch.zeros(800, 1024, 1024, dtype=torch.uint8, device=DEVICE)
    veil, model = torch.rand(1024, 1024, device=DEVICE), nn.Linear(1024, 16).to(DEVICE)
    developed = archive - veil  # planted: negatives
    for number in range(800):
        model(developed[number]).square().mean().backward()


class Nose(nn.Module):
    """Tells smells apart, with a table for each length of a trace."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(16)])

    @functools.lru_cache(maxsize=64)
    def table(self, length):
        return torch.arange(length, device=DEVICE).float().sin()[:, None]

    def forward(self, trace):
        return self.layers(trace + self.table(len(trace)))


def smelt(rounds):
    nose = Nose().to(DEVICE)  # planted: noses
    optimizer = torch.optim.Adam(nose.parameters())
    for _ in range(rounds):
        optimizer.zero_grad()
        nose(torch.randn(64, 2048, device=DEVICE)).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        return nose(torch.randn(64, 2048, device=DEVICE)).square().mean().item()


def noses():
    """Each nose that is tried out has a table of its own class's, whose cache has the nose, too."""
    for number in range(20):
        print(smelt(4 + number % 3))


globals()[sys.argv[1]]()

# SPDX-License-Identifier: MIT
"""Programs that run out of memory since something is computed in the wrong order, or along the wrong dimension: misfit.py CAUSE"""

import sys

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

DEVICE = "cuda"


class Interval(nn.Module):
    """Attention between the notes of a melody, by how far they are apart."""

    def __init__(self, notes, width=256, heads=4):
        super().__init__()
        self.heads, self.notes = heads, notes
        self.ask = nn.Linear(width, width)
        self.apart = nn.Embedding(2 * notes, width // heads)
        place = torch.arange(notes)
        self.register_buffer("steps", place[:, None] - place[None, :] + notes)

    def forward(self, melody):
        asked = self.ask(melody).view(self.notes, self.heads, -1)
        apart = self.apart(self.steps)  # planted: intervals
        return torch.einsum("nhd,nmd->hnm", asked, apart).softmax(-1) @ melody


def intervals():
    """How far notes are apart is looked up as a row of its own for each pair, before anything is multiplied."""
    layers = nn.ModuleList(Interval(2048) for _ in range(6)).to(DEVICE)
    melody = torch.randn(2048, 256, device=DEVICE)
    for layer in layers:
        melody = melody + layer(melody).mean(0)
    melody.square().mean().backward()


class Junction(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.MultiheadAttention(64, 4)
        self.seen = None

    def forward(self, crossings):
        there, self.seen = self.look(crossings, crossings, crossings)  # planted: junctions
        return crossings + there


def junctions():
    """What is looked at in the first step is a batch of crossings, each of which attends to all others."""
    model = nn.Sequential(nn.Linear(6, 64), Junction(), Junction(), nn.Linear(64, 1)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(4):
        crossings = torch.randn(2048, 20, 6).to(DEVICE)
        optimizer.zero_grad()
        model(crossings).square().mean().backward()
        optimizer.step()


class Layers(nn.Module):
    """The age of a layer by its depth."""

    def __init__(self):
        super().__init__()
        self.fit = nn.Sequential(nn.Linear(16, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 1))

    def forward(self, core):
        return self.fit(core)  # planted: strata


def strata():
    """How certain each weight is, by the squares of the gradients of all samples, of which only the sums are wanted."""
    model = Layers().to(DEVICE)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}

    def misfit(weights, core, age):
        return functional.mse_loss(functional_call(model, weights, core), age)

    cores, ages = torch.randn(448, 16, device=DEVICE), torch.randn(448, 1, device=DEVICE)
    slopes = vmap(grad(misfit), in_dims=(None, 0, 0))(weights, cores, ages)  # called: strata
    print({name: slope.square().sum(0).mean() for name, slope in slopes.items()})


class Stones(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(3, 48, 7, stride=8, padding=3), nn.ReLU(), nn.Conv2d(48, 60, 1))

    def forward(self, floor):
        kinds = self.look(floor)
        return functional.interpolate(kinds, size=floor.shape[-2:], mode="bilinear")  # planted: mosaics


@torch.no_grad()
def mosaics():
    """Of each floor the kinds of all stones are made as large as its picture, and then the likeliest is taken."""
    model = Stones().to(DEVICE).eval()
    for side in (1024, 1536, 1280, 2048, 1024, 1792, 4608):
        floor = torch.rand(1, 3, side, side, device=DEVICE)
        print(side, model(floor).argmax(1).float().mean())  # called: mosaics


class Glade(nn.Module):
    def __init__(self):
        super().__init__()
        self.even = nn.LayerNorm(256)
        self.wide, self.narrow = nn.Sequential(nn.Linear(256, 1024), nn.GELU()), nn.Linear(1024, 256)

    def forward(self, trees):
        wide = self.wide(self.even(trees))  # planted: glades
        return trees + self.narrow(wide)


class Forest(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = nn.Sequential(*[Glade() for _ in range(12)])
        self.known.requires_grad = False
        self.kind = nn.Linear(256, 40)

    def forward(self, trees):
        return self.kind(self.known(trees).mean(1))


def glades():
    """What was to be frozen is not; the request that fails is a small one beside what another line saves."""
    model = Forest().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(92, 384, 256, device=DEVICE)).square().mean().backward()
        optimizer.step()


def quantile(said, was, share):
    less = was - said  # planted: ebbs
    return torch.maximum(share * less, (share - 1) * less).mean()


def ebbs():
    """What is said of each hour has a dimension more than what was measured; of all hours at once that is too many pairs."""
    model = nn.Sequential(nn.Linear(24, 256), nn.SiLU(), nn.Linear(256, 1)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    hours, levels = torch.randn(60000, 24, device=DEVICE), torch.randn(60000, device=DEVICE)
    for step in range(12):
        rows = torch.arange(512, device=DEVICE) + step
        optimizer.zero_grad()
        quantile(model(hours[rows]), levels[rows], 0.1).backward()
        optimizer.step()
    with torch.no_grad():
        print(quantile(model.eval()(hours[34000:]), levels[34000:], 0.1))


globals()[sys.argv[1]]()

# SPDX-License-Identifier: MIT
"""Jobs that run out of GPU memory as something piles up on a way that no line of the model shows: piled.py CAUSE. The line it is about is marked."""

import itertools
import queue
import sys
import threading
from collections import deque

import torch
from torch import nn

DEVICE = "cuda"


def network():
    return nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(1024, 1024), nn.ReLU())]).to(DEVICE)


@torch.no_grad()
def lookback():
    """The latest states of some wells are kept on purpose, and no more; a plate as a whole is too large beside them."""
    model, latest = network(), {}
    for i in range(400):
        states = latest.setdefault(i % 10, deque(maxlen=2))
        states.append(model(torch.randn(16384, 1024, device=DEVICE)))
    plate = torch.randn(330000, 1024, device=DEVICE)
    return model(plate)  # planted: lookback


class Tap:
    """How strongly a layer answers, for a chart."""

    def __init__(self, layer):
        self.level = None
        layer.register_forward_hook(self.take)

    def take(self, layer, given, answer):
        self.level = answer.detach().abs()  # planted: taps


def taps():
    """Each chart has a tap of its own, and none is ever closed: each goes on with every batch."""
    model, charts = network(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        optimizer.zero_grad()
        model(torch.randn(4096, 1024, device=DEVICE)).square().mean().backward()
        optimizer.step()
        if step % 4 == 0:
            tap = Tap(model[2])
            model(torch.randn(4096, 1024, device=DEVICE))
            charts.append(tap.level.mean().cpu())


def joined(before, part):
    return part if before is None else torch.cat((before, part))  # planted: gathered


@torch.no_grad()
def gathered():
    """A validation that joins all answers, and their features, on the GPU."""
    model, head = network(), nn.Linear(1024, 6000).to(DEVICE)
    answers = features = None
    for _ in range(1000):
        hidden = model(torch.randn(8, 48, 1024, device=DEVICE))
        answers, features = joined(answers, head(hidden)), joined(features, hidden[:, ::4])


class Waves(nn.Module):
    """Places as waves of many lengths, then a height."""

    def __init__(self):
        super().__init__()
        self.lengths, self.layers = torch.arange(1, 65, device=DEVICE), nn.Linear(128, 1).to(DEVICE)

    def forward(self, places):
        waves = places[:, None] * self.lengths  # planted: surfaces
        return self.layers(torch.cat((waves.sin(), waves.cos()), 1))


def surfaces():
    """Learns heights of a few places at a time, looks at some more, and then wants all of the map at once."""
    model = Waves()
    for _ in range(200):
        model(torch.rand(4096, device=DEVICE)).square().mean().backward()
    with torch.no_grad():
        model(torch.rand(1 << 20, device=DEVICE))
        model(torch.rand(1 << 24, device=DEVICE))  # called: surfaces


def uploads(n):
    for _ in range(n):
        yield torch.randn(2048, 1024).to(DEVICE)  # planted: rounds


def rounds():
    """Pictures without labels come round again and again, each beside a batch that has some."""
    model, others = network(), itertools.cycle(uploads(5000))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2000):
        optimizer.zero_grad()
        model(next(others)).square().mean().backward()
        optimizer.step()


@torch.no_grad()
def backlog():
    """Answers are written down by a thread that is slower than the model."""
    model, answers, ready = network(), queue.Queue(), threading.Semaphore(0)

    def write():
        while True:
            ready.acquire()
            answers.get().sum().item()

    threading.Thread(target=write, daemon=True).start()
    for i in range(1000):
        answers.put(model(torch.randn(8192, 1024, device=DEVICE)))  # planted: backlog
        if i % 4 == 0:
            ready.release()


class Bench:
    """Whatever was tried, by name."""

    def __init__(self):
        self.models, self.optimizers = [], []

    def add(self, model):
        self.models.append(model)
        self.optimizers.append(torch.optim.Adam(model.parameters()))
        return self.optimizers[-1]


def seasons():
    """A model for each season, and an optimizer: a bench has both lists, and nobody clears it."""
    bench = Bench()
    for _ in range(40):
        model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(12))).to(DEVICE)  # planted: seasons
        optimizer = bench.add(model)
        for _ in range(6):
            model(torch.randn(256, 1024, device=DEVICE)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


class Ear(nn.Module):
    """What is heard, by short pieces and by all of it."""

    def __init__(self):
        super().__init__()
        self.norm, self.piece, self.gate = nn.LayerNorm(256), nn.Conv1d(256, 512, 1), nn.BatchNorm1d(256)
        self.all = nn.GRU(256, 256, batch_first=True)

    def forward(self, x):
        gated = nn.functional.glu(self.piece(self.norm(x).transpose(1, 2)), 1)
        return self.all(nn.functional.silu(self.gate(gated)).transpose(1, 2))[0]


def hear(model, sound, words):
    heard = model(sound)
    if words > sound.shape[1]:
        raise ValueError("more words than were heard")
    heard.square().mean().backward()


def unheard():
    """What cannot be true is put aside, as the error that it was."""
    model, aside = nn.Sequential(Ear(), Ear()).to(DEVICE), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(2000):
        try:
            hear(model, torch.randn(32, 200, 256, device=DEVICE), 300 if i % 3 == 0 else 100)
        except ValueError as error:
            aside.append(error)
            continue
        optimizer.step()
        optimizer.zero_grad()


class Carpet(nn.Module):
    """Threads both ways, and what each does to each."""

    def __init__(self):
        super().__init__()
        self.warp, self.weft, self.mix = nn.Linear(16, 16), nn.Linear(16, 16), nn.ModuleList(nn.Linear(16, 16) for _ in range(12))

    def forward(self, rows, columns):
        x = self.warp(rows)[:, None] * self.weft(columns)[None]
        for mix in self.mix:
            x = torch.tanh(mix(x))  # planted: carpets
        return x


def carpets():
    """Batches with many rows come, and with many columns; one has both."""
    model = Carpet().to(DEVICE)
    for step in range(60):
        long, wide = (2600, 2000) if step == 50 else (2600, 600) if step % 2 else (600, 2000)
        model(torch.randn(long, 16, device=DEVICE), torch.randn(wide, 16, device=DEVICE)).mean().backward()


def heads():
    """Each season has more kinds, and a wider head for them, which the optimizer is given as well."""
    trunk = network()
    optimizer = torch.optim.Adam(trunk.parameters())
    for season in range(100):
        head = nn.Linear(1024, 16000 + 512 * season).to(DEVICE)
        optimizer.add_param_group({"params": list(head.parameters())})
        for _ in range(5):
            head(trunk(torch.randn(64, 1024, device=DEVICE))).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


globals()[sys.argv[1]]()

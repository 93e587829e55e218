# SPDX-License-Identifier: MIT
"""Programs that run out of memory since something is held for longer, or more of it, than is meant: overheld.py CAUSE"""

import asyncio
import atexit
import sys

import torch
from torch import nn

DEVICE = "cuda"


class Tide:
    """Water in a basin; two states of it, of which each step makes a new one."""

    def __init__(self, basin, side=288):
        self.basin = basin
        self.levels = []
        self.now = torch.zeros(side, side, side, device=DEVICE)
        self.before = torch.zeros_like(self.now)
        atexit.register(self.tell)

    def flowed(self):
        around = self.now * -6.0  # planted: tides
        for dimension in range(3):
            around += torch.roll(self.now, 1, dimension)
            around += torch.roll(self.now, -1, dimension)
        return around

    def run(self, steps):
        for _ in range(steps):
            later = self.flowed().mul_(0.1).add_(self.now, alpha=2).sub_(self.before)
            self.before, self.now = self.now, later
            self.levels.append(self.now[0, 0, 0].item())

    def tell(self):
        print(self.basin, len(self.levels))


def tides():
    """What each basin has seen is told at the end, by a method of what computes it."""
    for basin in range(100):
        Tide(basin).run(4)


class Rings(nn.Module):
    """Looks at slices of trunks; of each the first of its rows says what tree it is of."""

    def __init__(self, width=512, depth=3):
        super().__init__()
        self.patch = nn.Linear(256, width)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(depth))
        self.last = nn.LayerNorm(width)

    def forward(self, slices):
        rows = self.patch(slices)
        for layer in self.layers:
            rows = rows + layer(rows)
        return self.last(rows)  # planted: trunks

    def kind(self, slices):
        return self.forward(slices)[:, 0]


@torch.inference_mode()
def trunks():
    """One row is kept of each of many, with all the others beside it."""
    rings, kinds = Rings().to(DEVICE).eval(), []
    for _ in range(500):
        kinds.append(rings.kind(torch.randn(96, 512, 256, device=DEVICE)))
    return torch.cat(kinds)


def standings():
    """Of many runners the ten fastest of each course are looked for, by the order of all."""
    times = torch.randn(24000, 12000, device=DEVICE)
    order = torch.argsort(times, dim=1)  # planted: standings
    return order[:, :10]


class Echo(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(1, width, 9, padding=4), nn.SiLU(), nn.Conv1d(width, width, 9, padding=4))

    def forward(self, sound):
        return self.layers(sound)  # planted: answers


class Station:
    """Answers callers; who is not answered in time is told so."""

    def __init__(self):
        self.echo = Echo().to(DEVICE).eval()
        self.waiting = {}

    def late(self, caller, heard):
        if self.waiting.pop(caller, None) is not None:
            print("late", caller, heard.shape)

    @torch.inference_mode()
    async def answer(self, caller):
        heard = self.echo(torch.randn(4, 1, 8192, device=DEVICE))  # called: answers
        self.waiting[caller] = heard
        asyncio.get_running_loop().call_later(300, self.late, caller, heard)
        await asyncio.sleep(0)
        del self.waiting[caller]
        return heard.mean().item()


async def answered(callers):
    station = Station()
    for caller in range(callers):
        await station.answer(caller)


def answers():
    """What is to be done when no answer came is there for as long as an answer may take."""
    asyncio.run(answered(1000))


globals()[sys.argv[1]]()

# SPDX-License-Identifier: MIT
"""Objects of Python's own library that keep tensors nobody asks for any more, until memory runs out: containers.py CAUSE"""

import sys
import weakref
from unittest.mock import MagicMock

import torch
from torch import nn

DEVICE = "cuda"


def network(width=1024, depth=4):
    return nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())]).to(DEVICE)


def guide(model, pictures):
    seen = [model(picture) for picture in pictures]
    for place in range(1000):
        yield seen[place % len(seen)].mean()


class Museum:
    def __init__(self):
        self.model, self.visits = network().eval(), {}

    def arrive(self, name):
        self.visits[name] = guide(self.model, torch.randn(4, 2048, 1024, device=DEVICE))

    def answer(self, name):
        return next(self.visits[name])


def visits():
    """Each visit is a generator, which stays in a dict when the visitor has gone."""
    museum = Museum()
    with torch.no_grad():
        for i in range(500):
            museum.arrive(f"visitor {i}")
            for _ in range(3):
                museum.answer(f"visitor {i}")


class Car:
    pass


class Trip:
    """What a car was last seen to do."""

    def __init__(self, car):
        self.car, self.track = car, torch.zeros(1, 1024, device=DEVICE)

    def drive(self, model):
        self.track = torch.cat([self.track, model(torch.randn(1024, 1024, device=DEVICE))])


def trips():
    """Cars are weak keys, that each trip has a reference to: none of them ever goes."""
    model, all_trips = network().eval(), weakref.WeakKeyDictionary()
    with torch.no_grad():
        for _ in range(500):
            car = Car()
            all_trips[car] = Trip(car)
            for _ in range(4):
                all_trips[car].drive(model)


def mocked():
    """Pictures are given to a writer that is a mock where none are wanted, and keeps all of them."""
    model, writer = network(), MagicMock()
    for step in range(500):
        picture = model(torch.randn(8192, 1024, device=DEVICE))
        picture.square().mean().backward()
        writer.add_image("step", picture.detach().clone(), step)


globals()[sys.argv[1]]()

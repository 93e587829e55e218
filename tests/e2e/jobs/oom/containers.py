# SPDX-License-Identifier: MIT
"""Objects of Python's own library that keep tensors nobody asks for any more, until memory runs out: containers.py CAUSE"""

import asyncio
import concurrent.futures
import contextlib
import sys
import weakref
from unittest.mock import MagicMock

import torch
import torch.utils.checkpoint
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


@contextlib.contextmanager
def way(model):
    places = model(torch.randn(8192, 1024, device=DEVICE))
    yield places


def escorts():
    """Each way is a context of one stack, that ends with the day."""
    model = network().eval()
    with torch.no_grad(), contextlib.ExitStack() as open_ways:
        for _ in range(500):
            open_ways.enter_context(way(model)).sum()


class Order:
    def __init__(self, model):
        self.seen = model(torch.randn(8192, 1024, device=DEVICE))

    def remind(self):
        print("an order waits")


async def take_orders(model):
    for _ in range(500):
        order = Order(model)
        asyncio.get_running_loop().call_later(600, order.remind)
        await asyncio.sleep(0)


def reminders():
    """A reminder is due in ten minutes, whether the order is done or not."""
    with torch.no_grad():
        asyncio.run(take_orders(network().eval()))


async def watch(order):
    while True:
        await asyncio.sleep(0.01)
        order.seen.shape


async def watch_orders(model):
    tasks = []
    for _ in range(500):
        tasks.append(asyncio.create_task(watch(Order(model))))
        await asyncio.sleep(0)
        tasks = tasks[-2:]


def watches():
    """Each order has a task that watches it for ever."""
    with torch.no_grad():
        asyncio.run(watch_orders(network().eval()))


class Guest:
    def __init__(self, model):
        self.seen = model(torch.randn(8192, 1024, device=DEVICE))
        weakref.finalize(self, self.leave)

    def leave(self):
        print("a guest has left")


def farewells():
    """What is to be done when a guest has gone is a method of the guest, who therefore never goes."""
    model = network().eval()
    with torch.no_grad():
        for _ in range(500):
            Guest(model)


def upload(i):
    return torch.randn(8192, 1024, device=DEVICE).mul(i)


def fetched_ahead():
    """An executor makes all inputs ahead, of which the loop takes one at a time."""
    model = network()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for rows in pool.map(upload, range(500)):
            for _ in range(10):
                model(rows).square().mean().backward()


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = network(1024, 24)

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.layers, x, use_reentrant=False)


def one_checkpoint():
    """All layers are under one checkpoint, which has all that they make at once in the backward pass."""
    model = Deep().to(DEVICE)
    for _ in range(20):
        model(torch.randn(20000, 1024, device=DEVICE)).square().mean().backward()


globals()[sys.argv[1]]()

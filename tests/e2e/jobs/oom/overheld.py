# SPDX-License-Identifier: MIT
"""Programs that run out of memory since something is held for longer, or more of it, than is meant: overheld.py CAUSE"""

import asyncio
import atexit
import concurrent.futures
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


class Surface(nn.Module):
    """Looks at a picture of the sea."""

    def __init__(self, width=32):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, width, 5, padding=2), nn.Conv2d(width, width, 3, padding=1)

    def waves(self, picture):
        return torch.relu_(self.second(torch.relu_(self.first(picture))))  # planted: wardens


class Wardens:
    """Each asks what the tide does, and says then how a ship may go."""

    def __init__(self):
        self.surface = Surface().to(DEVICE).eval()

    async def advise(self, ship):
        waves = self.surface.waves(torch.randn(1, 3, 768, 768, device=DEVICE))
        await asyncio.sleep(0.2 + 0.001 * ship)
        return waves.amax().item()


async def advised(ships):
    wardens = Wardens()
    with torch.inference_mode():
        return await asyncio.gather(*[wardens.advise(ship) for ship in range(ships)])


def wardens():
    """All are asked at once, and wait for the same answer with what each has seen."""
    asyncio.run(advised(200))


def balanced(costs, rounds):
    """By turns what leaves each place and what comes to each."""
    leaves, comes = torch.zeros_like(costs[:, 0]), torch.zeros_like(costs[0])
    for _ in range(rounds):
        leaves = -torch.logsumexp(comes[None, :] - costs, 1)  # planted: freights
        comes = -torch.logsumexp(leaves[:, None] - costs, 0)
    return leaves, comes


def freights():
    """What a balance needs is found in many rounds, and all of them are saved for the backward pass."""
    places = nn.Linear(64, 32).to(DEVICE)
    optimizer = torch.optim.Adam(places.parameters())
    for rounds in (4, 8, 200):
        one, other = places(torch.randn(3000, 64, device=DEVICE)), places(torch.randn(3000, 64, device=DEVICE))
        leaves, comes = balanced(torch.cdist(one, other), rounds)  # called: freights
        optimizer.zero_grad()
        (leaves.mean() + comes.mean()).backward()
        optimizer.step()


class String(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, places):
        return self.layers(places)  # planted: strings


def tuned(string, places, heard, rounds):
    """Weights of its own for each string, found in steps from those that are good for all."""
    weights = dict(string.named_parameters())
    for _ in range(rounds):
        missed = (torch.func.functional_call(string, weights, (places,)) - heard).square().mean()  # called: strings
        steps = torch.autograd.grad(missed, list(weights.values()), create_graph=True)
        weights = {name: weight - 0.01 * step for (name, weight), step in zip(weights.items(), steps)}
    return weights


def strings():
    """What is tuned in few steps while it learns is tuned in many for those who buy, in the same way."""
    string = String().to(DEVICE)
    optimizer = torch.optim.Adam(string.parameters())
    for rounds in (1, 2, 2, 400):
        places, heard = torch.rand(4096, 64, device=DEVICE), torch.randn(4096, 1, device=DEVICE)
        weights = tuned(string, places, heard, rounds)
        optimizer.zero_grad()
        (torch.func.functional_call(string, weights, (places,)) - heard).square().mean().backward()
        optimizer.step()


class Pipes:
    """What each rank of pipes answers is computed once."""

    def __init__(self):
        self.lengths = torch.rand(64, device=DEVICE)
        self.tones = torch.linspace(1, 2, 1 << 18, device=DEVICE)
        self.answers = {}

    def rank(self, first):
        return self.lengths[first : first + 32] * 2

    def answer(self, lengths):
        if lengths not in self.answers:
            self.answers[lengths] = torch.outer(lengths, self.tones)  # planted: pipes
        return self.answers[lengths]


def pipes():
    """What is looked up by a tensor that is made anew each time is never found."""
    organ = Pipes()
    for measure in range(1000):
        organ.answer(organ.rank(measure % 4))


class Telegraph(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.front, self.cells, self.letters = nn.Linear(64, width), nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, 40)

    def forward(self, clicks, state):
        rows, state = self.cells(self.front(clicks), state)  # planted: tickers
        return self.letters(rows), state


def tickers():
    """What was heard goes on from window to window, and with it the graphs of all windows."""
    telegraph, state = Telegraph().to(DEVICE), None
    optimizer = torch.optim.SGD(telegraph.parameters(), lr=0.1)
    for _ in range(300):
        letters, state = telegraph(torch.randn(64, 256, 64, device=DEVICE), state)  # called: tickers
        loss = letters.square().mean()
        loss.backward(retain_graph=True)
        optimizer.zero_grad()


class Walker(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.fine = nn.Conv2d(3, width, 3, padding=1)

    def forward(self, picture):
        return torch.relu(self.fine(picture))  # planted: walkers


def followed(walker, picture):
    """Says how like a later picture is, for as long as it is asked."""
    seen = walker(picture)  # called: walkers
    likeness = seen.mean((2, 3))
    while True:
        other = yield likeness
        likeness = likeness + other


@torch.inference_mode()
def walkers():
    """Each that is followed needs a few numbers, and has beside them all that they were computed of."""
    walker, followers = Walker().to(DEVICE).eval(), {}
    for number in range(500):
        followers[number] = followed(walker, torch.rand(2, 3, 512, 512, device=DEVICE))
        next(followers[number])
        for _ in range(3):
            walker(torch.rand(1, 3, 512, 512, device=DEVICE))


class Moth(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.layers = nn.Sequential(*[part for _ in range(6) for part in (nn.Conv2d(width, width, 3, padding=1), nn.GELU())])
        self.first = nn.Conv2d(3, width, 3, padding=1)

    def forward(self, pictures):
        return self.layers(self.first(pictures)).mean((2, 3))  # planted: moths


class Pair(nn.Module):
    """One learns from the other, which follows it; where the other's answers lie on average is taken off."""

    def __init__(self):
        super().__init__()
        self.pupil, self.master = Moth(), Moth()
        self.register_buffer("middle", torch.zeros(1, 96))

    def forward(self, pictures):
        says = self.pupil(pictures)
        meant = self.master(pictures)  # called: moths
        self.middle = 0.9 * self.middle + 0.1 * meant.mean(0, keepdim=True)
        return (says - (meant - self.middle).detach()).square().mean()


def moths():
    """An average that is a buffer goes on with the graphs of all that it is an average of."""
    pair = Pair().to(DEVICE)
    optimizer = torch.optim.Adam(pair.pupil.parameters())
    for _ in range(100):
        pair(torch.rand(8, 3, 96, 96, device=DEVICE)).backward()
        optimizer.step()
        optimizer.zero_grad()


def loaded(number):
    return number, torch.randn(1 << 24, device=DEVICE)  # planted: cargoes


def cargoes():
    """All are loaded ahead by a few threads, and each that was used stays in the list of those that were asked for."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        coming = [pool.submit(loaded, number) for number in range(200)]
        for one in coming:
            number, cargo = one.result()
            cargo.mean()


class Brass(nn.Module):
    """Says of a picture what it shows, where it was made, and when."""

    def __init__(self, width=64):
        super().__init__()
        inner = [part for _ in range(3) for part in (nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())]
        self.layers = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), *inner)
        self.says = nn.ModuleList(nn.Linear(width, nr) for nr in (10, 6, 4))

    def forward(self, pictures):
        rows = self.layers(pictures).mean((2, 3))  # planted: portions
        return [says(rows) for says in self.says]


def portions():
    """A large batch in portions, whose losses are summed before the one backward pass."""
    brass = Brass().to(DEVICE)
    optimizer = torch.optim.SGD(brass.parameters(), lr=0.1)
    for nr in (1, 1, 16):
        total = 0.0
        for pictures in torch.rand(nr * 8, 3, 256, 256, device=DEVICE).chunk(nr):
            loss = sum(answers.square().mean() for answers in brass(pictures))  # called: portions
            total = total + loss / nr
        optimizer.zero_grad()
        total.backward()
        optimizer.step()


def next_day(water, soil):
    """Water goes from each cell of a field to those beside it."""
    flows = soil.exp() * (torch.roll(water, 1, -1) + torch.roll(water, -1, -2) - 2 * water).tanh()
    return water + 0.1 * torch.sigmoid(flows * water)


def season(soil, water, days):
    for _ in range(days):
        water = next_day(water, soil)
    return water


def fields():
    """How water moves is learnt from short spans, and what is foretold by it has a graph, too."""
    soil = nn.Parameter(torch.zeros(1, 1, 1024, 1024, device=DEVICE))
    optimizer = torch.optim.Adam([soil], lr=0.01)
    water = torch.rand(1, 1, 1024, 1024, device=DEVICE)
    for _ in range(4):
        missed = (season(soil, water, 5)[..., 1:] - water[..., :-1]).square().mean()
        optimizer.zero_grad()
        missed.backward()
        optimizer.step()
    season(soil, water, 1000)  # planted: fields


class Rete(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, width), nn.Tanh(), nn.Linear(width, 1 << 16), nn.Tanh())

    def forward(self, code):
        return self.layers(code)


def codes():
    """A code is searched for by what its picture lacks; each step of it is made of gradients with a graph."""
    rete, seen = Rete().to(DEVICE).requires_grad_(False), torch.randn(64, 1 << 16, device=DEVICE)
    code = torch.zeros(64, 64, device=DEVICE, requires_grad=True)
    speed = torch.zeros_like(code)
    for _ in range(400):
        lacks = (rete(code) - seen).square().mean()  # planted: codes
        (slope,) = torch.autograd.grad(lacks, code, create_graph=True)
        speed = 0.9 * speed - 0.1 * slope
        code = code + speed


class Token(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(128, width), nn.GELU(), nn.LayerNorm(width))

    def forward(self, patches):
        return self.layers(patches)  # planted: shelves


@torch.inference_mode()
def shelves():
    """What is kept of each, by the shelf that it belongs to, is the first of many rows."""
    token, by_shelf = Token().to(DEVICE).eval(), {"oak": [], "ash": [], "elm": [], "yew": [], "fir": []}
    names = list(by_shelf)
    for number in range(500):
        rows = token(torch.randn(64, 512, 128, device=DEVICE))  # called: shelves
        by_shelf[names[number % 5]].append(rows[:, 0])


globals()[sys.argv[1]]()

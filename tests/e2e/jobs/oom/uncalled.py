# SPDX-License-Identifier: MIT
"""Programs that run out of memory for a call that was not made, or not in the way that was meant: uncalled.py CAUSE"""

import asyncio
import atexit
import contextvars
import functools
import random
import signal
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

DEVICE = "cuda"


class Frames(nn.Module):
    """Looks at each picture of a film."""

    def __init__(self, width=384):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 16, 16)
        self.place = nn.Parameter(torch.zeros(1, 196, width))
        layer = nn.TransformerEncoderLayer(width, 6, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)

    def forward(self, pictures):
        rows = self.patch(pictures).flatten(2).transpose(1, 2) + self.place
        return self.layers(rows).mean(1)  # planted: films


class Films(nn.Module):
    """What is seen in the pictures is known; how they follow each other is to be learnt."""

    def __init__(self):
        super().__init__()
        self.frames = Frames()
        self.frames.requires_grad = False
        self.course = nn.GRU(384, 128, batch_first=True)
        self.out = nn.Linear(128, 4)

    def train(self, mode=True):
        super().train(mode)
        self.frames.eval()
        return self

    def forward(self, films):
        seen = self.frames(films.flatten(0, 1)).view(len(films), -1, 384)
        return self.out(self.course(seen)[0][:, -1])


def films():
    """A module has an attribute "requires_grad" set, which no parameter knows of, and keeps all for a backward pass."""
    model = Films().to(DEVICE).train()
    optimizer = torch.optim.Adam([*model.course.parameters(), *model.out.parameters()])
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 16, 3, 224, 224, device=DEVICE)).square().mean().backward()
        optimizer.step()


class Stages(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(3))

    def forward(self, rows):
        rows = self.first(rows)  # planted: silent
        rows = self.second(rows)
        return self.third(rows)


class Watched:
    """How many units are silent, measured before training begins."""

    def __init__(self, model, names=("first", "second", "third")):
        self.seen = {name: [] for name in names}
        for name in names:
            getattr(model, name).register_forward_hook(self.collector(name))

    def collector(self, name):
        def collect(module, given, made):
            self.seen[name].append(made.detach())

        return collect

    def silent(self):
        return [torch.cat(seen).amax(0).le(0).sum().item() for seen in self.seen.values()]


def silent():
    """Hooks are there for what is measured before training, and stay when that has begun."""
    model = Stages().to(DEVICE)
    watched = Watched(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        model(torch.randn(4096, 1024, device=DEVICE))
    print(watched.silent())
    for _ in range(200):
        model(torch.randn(4096, 1024, device=DEVICE)).square().mean().backward()  # called: silent
        optimizer.step()
        optimizer.zero_grad()


def slower(share, gradient):
    return gradient * share


def damped():
    """Each part damps the gradient of the table in its own way, and so do all the parts before it."""
    table = nn.Embedding(8192, 1024).to(DEVICE)
    out = nn.Linear(1024, 10).to(DEVICE)
    optimizer = torch.optim.SGD([*table.parameters(), *out.parameters()], lr=0.1)
    for part in range(200):
        share = torch.full((8192, 1024), 0.5, device=DEVICE)  # planted: damped
        share[part * 40 : part * 40 + 40] = 1.0
        table.weight.register_hook(functools.partial(slower, share))
        out(table(torch.randint(0, 8192, (64, 32)).to(DEVICE))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def brightness():
    """What is said of each ray is a column, what was measured a row: in batches nobody notices."""
    model = nn.Sequential(nn.Linear(16, 512), nn.GELU(), nn.Linear(512, 1)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rays, measured = torch.randn(50000, 16, device=DEVICE), torch.randn(50000, device=DEVICE)
    for step in range(40):
        part = slice(step * 1024, step * 1024 + 1024)
        functional.smooth_l1_loss(model(rays[part]), measured[part]).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        return functional.smooth_l1_loss(model(rays), measured)  # planted: brightness


light = contextvars.ContextVar("light")


def idle(visit):
    print("visit", visit, "has ended")


async def answer(visit):
    light.set(torch.ones(4, 1024, 1024, device=DEVICE))
    await asyncio.sleep(0)
    light.set(light.get() * 0.5)  # planted: idle_visits
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(900, idle, visit)
    return light.get().sum().item()


async def answer_all():
    for visit in range(400):
        await asyncio.create_task(answer(visit % 4))


def idle_visits():
    """Each question sets the clock of its visit anew, and the clock that was set before goes on, with all that it knows."""
    asyncio.run(answer_all())


class Words(nn.Module):
    def __init__(self, width=2048, depth=10):
        super().__init__()
        self.layers = nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))])

    def forward(self, words):
        return self.layers(words)


class Pictures(nn.Module):
    def __init__(self, width=2048, depth=12):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)])

    def forward(self, pictures, said):
        return self.layers(pictures + said)


def told_once():
    """What the captions say is computed once, before training; the model that has told it stays."""
    words = Words().to(DEVICE).eval().requires_grad_(False)  # planted: told_once
    with torch.inference_mode():
        said = words(torch.randn(64, 2048, device=DEVICE)).cpu().clone()
    model = Pictures(depth=40).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        pictures = torch.randn(64, 2048, device=DEVICE)
        model(pictures, said.to(DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


class Reading(nn.Module):
    def __init__(self, words=48000, width=512):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layer = nn.Linear(width, width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        return self.head(self.layer(self.words(ids)))  # planted: read_aloud


def read_aloud():
    """Of all that is read the next word alone is asked for, in 16 bits; but each position says which would be its own."""
    model = Reading().to(DEVICE).half().eval()
    with torch.inference_mode():
        for length in (64, 4096):
            model(torch.randint(0, 48000, (12, length)).to(DEVICE))[:, -1].float().softmax(-1)


def misspelt():
    """All parameters but the last layer's are to stay as they are, which an attribute says that PyTorch does not know."""
    model = nn.Sequential(*[nn.Linear(3072, 3072) for _ in range(32)]).to(DEVICE)
    for parameter in model.parameters():
        parameter.require_grad = False
    model[-1] = nn.Linear(3072, 10).to(DEVICE)
    optimizer = torch.optim.AdamW([parameter for parameter in model.parameters() if parameter.requires_grad])
    for _ in range(3):
        model(torch.randn(64, 3072, device=DEVICE)).square().mean().backward()
        optimizer.step()  # planted: misspelt
        optimizer.zero_grad()


class Attempt:
    """Has its last lines written, however the program ends."""

    def __init__(self, depth):
        self.model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(depth)]).to(DEVICE)  # planted: attempts
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.lines = []
        atexit.register(self.write)

    def write(self):
        print(*self.lines)

    def learn(self):
        for _ in range(3):
            self.optimizer.zero_grad()
            loss = self.model(torch.randn(64, 2048, device=DEVICE)).square().mean()
            loss.backward()
            self.optimizer.step()
            self.lines.append(loss.item())


def attempt(depth):
    one = Attempt(depth)  # called: attempts
    one.learn()
    one.write()


def attempts():
    """Models of other sizes are tried one after the other, and each is registered for the end."""
    depths = random.Random(4)
    for _ in range(20):
        attempt(depths.choice([8, 10, 12]))


class Takes:
    def __init__(self, rows):
        self.all = torch.randn(rows, 4096, device=DEVICE)  # planted: takes

    def split(self, part):
        order = torch.randperm(len(self.all), device=DEVICE)
        cut = int(len(self.all) * part)
        self.learn, self.held = self.all[order[:cut]], self.all[order[cut:]]


def takes():
    """What is learnt from and what is held back are taken out of all, which stays."""
    data = Takes(100000)
    data.split(0.875)
    model = nn.Sequential(nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 10)).to(DEVICE)
    for _ in range(3):
        model(data.learn[:32768]).square().mean().backward()
        model.zero_grad()


def swaps():
    """Points are replaced by others now and then, and the optimizer goes on to know those before."""
    points = nn.Parameter(torch.randn(40000, 512, device=DEVICE))
    optimizer = torch.optim.Adam([points])
    for step in range(1, 100):
        if step % 3 == 0:
            points = nn.Parameter(torch.randn(40000 + 64 * step, 512, device=DEVICE))
            optimizer.param_groups[0]["params"] = [points]
        points.square().mean().backward()  # planted: swaps
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def write(grids):
    print(*(grid.mean().item() for grid in grids))


def on_end(grids):
    """What is to be written when the program is told to end, and then what was to be done before."""
    before = signal.getsignal(signal.SIGTERM)

    def handler(number, frame):
        write(grids)
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGTERM, handler)


def handlers():
    """Each field has its handler, which calls the one before, that of another field."""
    for field in range(400):
        height = torch.rand(1, 1, 512 + field, 512, device=DEVICE)
        height = functional.interpolate(height, scale_factor=4)  # planted: handlers
        on_end([height])
        for _ in range(3):
            height.add_(functional.avg_pool2d(height, 3, 1, 1), alpha=0.1)


def read_in_full():
    """The prompt is longer than those before; that each of its positions says which word would be next, in 32 bits, is what it is for."""
    model = Reading(words=32000).to(DEVICE).half().eval()
    with torch.inference_mode():
        for length in (64, 128, 2560):
            said = model(torch.randint(0, 32000, (12, length)).to(DEVICE))
            said.float()[:, -1].softmax(-1)  # planted: read_in_full


def played():
    """How good each position was is kept for later, and all that it was computed of."""
    model = nn.Sequential(nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 1)).to(DEVICE)
    values = []
    position = torch.randn(2048, 4096, device=DEVICE)
    while True:
        values.append(model(position).squeeze(-1))  # planted: played
        position = torch.randn(2048, 4096, device=DEVICE)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.flow = nn.Parameter(torch.full((4096, 2048), 0.1))

    def onward(self, heat):
        return heat + 0.01 * (heat.roll(1, 0) - heat) * self.flow.exp()


def fitted(field, start):
    optimizer = torch.optim.SGD(field.parameters(), lr=0.1)
    for _ in range(3):
        heat = start
        for _ in range(3):
            heat = field.onward(heat)
        heat.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def foretold(field, heat, hours):
    for _ in range(hours):
        heat = field.onward(heat)  # planted: forecast
    return heat


def forecast():
    """What was fitted foretells, hour by hour, with a graph from the first hour on."""
    field = Field().to(DEVICE)
    start = torch.randn(4096, 2048, device=DEVICE)
    fitted(field, start)
    return foretold(field, start, 1000)


class Deep(nn.Module):
    def __init__(self, width=1024, depth=24):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth))

    def forward(self, rows):
        for layer in self.layers:
            rows = rows + (checkpoint(layer, rows, use_reentrant=False) if self.training else layer(rows))  # planted: undone
        return rows


def undone():
    """Between epochs the model is tried out; what it computes again in training mode it keeps from then on."""
    model = Deep().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for _ in range(3):
            model(torch.randn(4096, 1024, device=DEVICE)).square().mean().backward()  # called: undone
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            model(torch.randn(256, 1024, device=DEVICE))


class Speaker(nn.Module):
    def __init__(self, width=2048, depth=4):
        super().__init__()
        self.layers = nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())])

    def forward(self, rows):
        return self.layers(rows)  # planted: taught


def taught():
    """A large model says what a small one is to learn; that no optimizer has it does not keep it from saving all for a backward pass."""
    knows, learns = Speaker(depth=24).to(DEVICE), Speaker().to(DEVICE)
    optimizer = torch.optim.Adam(learns.parameters())
    for _ in range(3):
        rows = torch.randn(12000, 2048, device=DEVICE)
        (learns(rows) - knows(rows)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


globals()[sys.argv[1]]()

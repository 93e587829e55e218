# SPDX-License-Identifier: MIT
"""Programs whose model fills the memory: its output, its older self, what is trained of it: models.py CAUSE"""

import copy
import sys

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda"


class Writer(nn.Module):
    """Of words, with one table for what goes in and what comes out."""

    def __init__(self, words, width=256):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(width, width), nn.GELU())))

    def forward(self, text):
        return self.layers(self.table(text)) @ self.table.weight.T  # planted: many_words


def many_words():
    """The scores of all words for all places, in float32 as the model is, and their softmax beside them."""
    model = Writer(120000).to(DEVICE)
    text = torch.randint(0, 120000, (10, 400), device=DEVICE)
    for _ in range(2):
        scores = model(text)
        loss = functional.cross_entropy(scores.flatten(0, 1), text.flatten())
        loss.backward()


def long_prompt():
    """Words are asked for after a long text: scores for all its places, of which the last one's are looked at."""
    model = Writer(150000).to(DEVICE)
    with torch.inference_mode():
        for length in (500, 1000, 8000):
            scores = model(torch.randint(0, 150000, (1, length), device=DEVICE))
            scores[:, -1].argmax()


def tower(width=4096, depth=12):
    layers = (part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU()))
    return nn.Sequential(*layers).to(DEVICE)  # planted: schedules


def renewed():
    """A model is made anew between requests, but the function that answers them still has the old one in its closure."""
    routes = {}

    def renew():
        model = nn.Sequential(*(nn.Linear(6144, 6144) for _ in range(14))).to(DEVICE)  # planted: renewed
        routes["answer"] = lambda rows: model(rows).argmax(-1)

    renew()
    with torch.no_grad():
        for request in range(1, 20):
            routes["answer"](torch.randn(64, 6144, device=DEVICE))
            if request % 5 == 0:
                renew()


def best_of_all():
    """Models are trained one after the other, and each one's best is kept as it was; no two need be there at once."""
    tried = []
    for rate in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001):
        model = tower(width=3072)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        for _ in range(3):
            model(torch.randn(256, 3072, device=DEVICE)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        tried.append({"rate": rate, "model": model})


def schedules():
    """What has gone through its steps is replaced, but its schedule is kept for a plot, and the schedule has the optimizer."""
    plots = []
    for warmup in (2, 4, 8, 16):
        model = tower(width=3072)
        optimizer = torch.optim.Adam(model.parameters())
        plots.append(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step, warmup=warmup: min(1, step / warmup)))
        for _ in range(2):
            model(torch.randn(256, 3072, device=DEVICE)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            plots[-1].step()


def rates():
    """One model goes on being trained at one rate after the other, and each rate's optimizer is kept beside what it reached."""
    model, reached = tower(width=2560), []
    for rate in (0.1, 0.03, 0.01, 0.003, 0.001):
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        for _ in range(2):
            model(torch.randn(256, 2560, device=DEVICE)).square().mean().backward()
            optimizer.step()  # planted: rates
            optimizer.zero_grad()
        reached.append((rate, optimizer))


def checked():
    """Every eighth step a penalty on other data is added to a total for the log, with its graph."""
    model, total = tower(width=1024, depth=8), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, 1000):
        model(torch.randn(64, 1024, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 8 == 0:
            total = total + model(torch.randn(8192, 1024, device=DEVICE)).square().mean()  # planted: checked


def rejected():
    """Rows that do not fit what is wanted are put aside with their error, which has the frame that has computed the scores."""
    model, aside = tower(width=1024, depth=6), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def score(rows, wanted):
        scores = model(rows)  # planted: rejected
        if len(wanted) != len(scores):
            raise ValueError("as many are wanted as there are rows")
        return (scores - wanted).square().mean()

    for step in range(1, 1000):
        rows = torch.randn(4096, 1024, device=DEVICE)
        wanted = torch.randn(4096 if step % 4 else 4000, 1024, device=DEVICE)
        try:
            score(rows, wanted).backward()
        except ValueError as error:
            aside.append(error)
            continue
        optimizer.step()
        optimizer.zero_grad()


class Named(nn.Module):
    """Layers that are no list's: each has a name of its own."""

    def __init__(self, width=1024):
        super().__init__()
        self.names = "first second third fourth fifth sixth seventh eighth ninth last".split()
        for name in self.names:
            setattr(self, name, nn.Linear(width, width))

    def forward(self, rows):
        for name in self.names:
            rows = functional.gelu(getattr(self, name)(rows))
        return rows


def put_aside():
    """After every sixth step the weights are put aside as they are, each under its name."""
    model, aside = Named().to(DEVICE), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, 1000):
        model(torch.randn(64, 1024, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 6 == 0:
            aside.append(dict(zip(model.state_dict(), map(torch.clone, model.state_dict().values()))))  # planted: put_aside


def tenants():
    """Each customer has a model of the same kind, made when the first question comes; all are asked in turn."""
    models = {}
    with torch.no_grad():
        for customer in range(20):
            models[customer] = nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(8))).to(DEVICE)  # planted: tenants
            for model in models.values():
                model(torch.randn(16, 4096, device=DEVICE))


def slow_copy():
    """After the first steps a copy of the model is made, which is to follow it slowly."""
    model = tower(depth=20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(64, 4096, device=DEVICE)).square().mean().backward()
        optimizer.step()
    follower = copy.deepcopy(model)  # planted: slow_copy
    return follower(torch.randn(64, 4096, device=DEVICE))


def student():
    """A second model of the same kind is to learn from the first, which has been tried out before."""
    teacher = nn.Sequential(*(nn.Linear(6144, 6144) for _ in range(14))).to(DEVICE)
    with torch.no_grad():
        teacher(torch.randn(64, 6144, device=DEVICE))
    learner = nn.Sequential(*(nn.Linear(6144, 6144) for _ in range(14))).to(DEVICE)  # planted: student
    return learner(torch.randn(64, 6144, device=DEVICE)) - teacher(torch.randn(64, 6144, device=DEVICE))


class Reader(nn.Module):
    """What is known already, and a few layers that learn to use it."""

    def __init__(self, width=3072, depth=28):
        super().__init__()
        self.known = tower(width, depth)
        self.learns = nn.Linear(width, 10).to(DEVICE)

    def forward(self, rows):
        return self.learns(self.known(rows))  # planted: heads_only


def thawed():
    """What is known was to stay as it is, and is in evaluation mode; but the optimizer was given all there is."""
    reader = Reader()
    reader.known.eval()
    optimizer = torch.optim.AdamW(reader.parameters())
    for _ in range(3):
        reader(torch.randn(512, 3072, device=DEVICE)).square().mean().backward()
        optimizer.step()  # planted: thawed
        optimizer.zero_grad()


def heads_only():
    """The optimizer has the new layer alone; but what is known, in evaluation mode, keeps all for a backward pass of its own."""
    reader = Reader(width=2048, depth=8)
    reader.known.eval()
    optimizer = torch.optim.SGD(reader.learns.parameters(), lr=0.1)
    for _ in range(3):
        said = reader(torch.randn(40000, 2048, device=DEVICE))
        said.square().mean().backward()
        optimizer.step()


def critic():
    """A frozen critic in evaluation mode says how good is what is learnt: its graph is needed, for what comes before it."""
    judged = Reader(depth=8)
    judged.learns = nn.Linear(3072, 3072).to(DEVICE)
    first, critic = judged.learns, judged.known
    judged.forward = lambda rows: critic(first(rows)).square().mean()  # planted: critic
    judged.known.eval().requires_grad_(False)
    for rows in (1000, 2000, 24000):
        judged(torch.randn(rows, 3072, device=DEVICE)).backward()


globals()[sys.argv[1]]()

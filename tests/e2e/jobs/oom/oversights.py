# SPDX-License-Identifier: MIT
"""Programs that run out of memory for something small that was overlooked: oversights.py CAUSE"""

import copy
import itertools
import logging
import random
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

DEVICE = "cuda"
random.seed(5)


def network(width=1024, depth=4):
    return nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())]).to(DEVICE)


def right(answers, labels):
    return (answers == labels).float().mean()  # planted: accuracy


def accuracy():
    """Answers keep a dimension that labels lack: each is compared with each, in a small check as in the large one."""
    model = nn.Sequential(network(256), nn.Linear(256, 10)).to(DEVICE)
    for step in range(60):
        model(torch.randn(64, 256, device=DEVICE)).square().mean().backward()
        if step % 10 == 9:
            n = 120_000 if step == 59 else 2000
            with torch.no_grad():
                answers = torch.cat([model(torch.randn(2000, 256, device=DEVICE)).argmax(-1, keepdim=True) for _ in range(n // 2000)])
            right(answers, torch.randint(10, (n,), device=DEVICE))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 256)
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(8))

    def forward(self, letters):
        x = self.embed(letters)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def letters():
    """Letters are padded to the longest of their batch; one is a hundred times as long as others."""
    model = Reader().to(DEVICE)
    for step in range(60):
        lengths = [random.randrange(100, 400) for _ in range(32)]
        if step == 50:
            lengths[7] = 40000
        batch = pad_sequence([torch.randint(1, 1000, (n,)) for n in lengths], batch_first=True)
        model(batch.to(DEVICE)).square().mean().backward()  # planted: letters


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2048, 2048) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def districts():
    """Each district has a forecast of its own, and all of them are on the GPU at once."""
    forecasts, base = {}, Forecast().to(DEVICE).requires_grad_(False)
    for i in range(100):
        forecasts[f"district {i}"] = copy.deepcopy(base)  # planted: districts
        with torch.no_grad():
            forecasts[f"district {i}"](torch.randn(64, 2048, device=DEVICE))


def members():
    """What the members of an ensemble know is stacked, to be asked at once; the members themselves stay."""
    ensemble = [Forecast().to(DEVICE).requires_grad_(False) for _ in range(20)]
    for member in ensemble:
        member(torch.randn(64, 2048, device=DEVICE))
    weights, buffers = torch.func.stack_module_state(ensemble)  # planted: members
    one = Forecast().to("meta")

    def ask(weights, buffers, x):
        return torch.func.functional_call(one, (weights, buffers), (x,))

    with torch.no_grad():
        print(torch.vmap(ask, in_dims=(0, 0, None))(weights, buffers, torch.randn(512, 2048, device=DEVICE)).shape, len(ensemble))


def parcels():
    for _ in range(200):
        yield torch.randn(32, 1024, 1024, device=DEVICE)  # planted: weighed


def weighed():
    """Parcels are counted before they are looked at: tee() keeps all of them for the second iterator."""
    counted, looked_at = itertools.tee(parcels())
    count = sum(parcel.shape[0] for parcel in counted)
    for parcel in looked_at:
        print(parcel.sum().item(), "of", count)


class Sharpen(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, picture):
        return self.second(torch.relu(self.first(picture)))


def slides():
    """What is made of each slide is kept, as it has to be; each is cut off a larger piece, whose rest serves nothing."""
    model, scans = Sharpen().to(DEVICE).eval(), []
    with torch.no_grad():
        for _ in range(100):
            sharp = model(torch.randn(1, 3, 2048, 2048, device=DEVICE))
            scans.append(nn.functional.pad(sharp, (16, 16, 16, 16)))  # planted: slides
    print(len(scans))


class Report(logging.Handler):
    """What was logged is told at the end."""

    def __init__(self):
        super().__init__()
        self.told = []

    def emit(self, record):
        self.told.append(record)


def records():
    """Warnings are kept as they were given, with the tensors that they name."""
    report, model = Report(), network()
    logging.getLogger().addHandler(report)
    for step in range(500):
        errors = model(torch.randn(8192, 1024, device=DEVICE)).square()
        errors.mean().backward()
        logging.warning("step %d: %s", step, errors.detach().clone())
    print(len(report.told))


def measure(model, piece, limit):
    levels = [model(piece) for _ in range(4)]
    if limit < 3:
        raise ValueError("too close to be measured")
    return sum(levels)


def rejects():
    """Errors are put aside to be told at the end; each has the frame that it left, with four tensors of one name."""
    model, aside = network(), []
    with torch.no_grad():
        for i in range(500):
            try:
                measure(model, torch.randn(4096, 1024, device=DEVICE), i % 5)
            except ValueError as error:
                aside.append(error)
    print(len(aside))


def curvature():
    """Steps go by the curvature, which they have of the gradients of .grad; nobody sets that to None."""
    model = nn.Sequential(nn.Linear(64, 512), nn.Softplus(), nn.Linear(512, 512), nn.Softplus(), nn.Linear(512, 1, bias=False)).to(DEVICE)
    weights = list(model.parameters())
    for _ in range(500):
        model(torch.randn(4096, 64, device=DEVICE)).mean().backward(create_graph=True)  # planted: curvature
        slopes = [weight.grad for weight in weights]
        bends = torch.autograd.grad(slopes, weights, [torch.randn_like(weight) for weight in weights], retain_graph=True)
        for weight, slope, bend in zip(weights, slopes, bends):
            weight.data.addcdiv_(slope.detach(), bend.abs() + 1, value=-0.1)


class Tuned(nn.Module):
    """A layer with a small change of its own, which alone is trained."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(1024, 16).to(DEVICE), nn.Linear(16, 1024).to(DEVICE)

    def forward(self, x):
        return self.layer(x) + self.up(nn.functional.silu(self.down(nn.functional.dropout(x, 0.1))))


def tunings():
    """Each customer has changes to the same layers; they are put around those that are there."""
    model = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(4)).to(DEVICE)
    for _ in range(60):
        for i in range(4):
            model[i] = Tuned(model[i])
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
        for _ in range(4):
            x = torch.randn(32768, 1024, device=DEVICE)
            for layer in model:
                x = layer(x)
            x.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


class Halves(nn.Module):
    """One half of the features goes on to the next, as in a U-Net: nested from the beginning."""

    def __init__(self, deep):
        super().__init__()
        self.layer, self.inner = nn.Linear(1024, 1024), Halves(deep - 1) if deep else nn.Identity()

    def forward(self, x):
        return self.layer(x) + self.inner(torch.tanh(x))


def nested():
    """Too large a batch for a model that is nested as it has to be."""
    model = Halves(8).to(DEVICE)
    for _ in range(8):
        model(torch.randn(60000, 1024, device=DEVICE)).square().mean().backward()


class Choir(nn.Module):
    """A body for all, and a part that each choir has of its own, with a row for each singer."""

    def __init__(self):
        super().__init__()
        self.body, self.part = network(), None

    def forward(self, x, singers):
        return self.body(x + self.part(singers))


def choirs():
    """The part is replaced for each choir; the optimizer is given the new one, and has the older ones still."""
    model = Choir()
    optimizer = torch.optim.Adam(model.body.parameters())
    for i in range(100):
        model.part = nn.Embedding(9000 + 500 * (i % 7), 1024).to(DEVICE)  # planted: choirs
        optimizer.add_param_group({"params": list(model.part.parameters())})
        for _ in range(3):
            model(torch.randn(64, 1024, device=DEVICE), torch.randint(9000, (64,), device=DEVICE)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


def voices():
    """Each speaker has an adapter, that one optimizer for all of them is given, and keeps."""
    body = network().requires_grad_(False)
    optimizer = torch.optim.Adam([nn.Parameter(torch.zeros(1024, device=DEVICE))])
    for _ in range(100):
        adapter = Forecast().to(DEVICE)  # planted: voices
        optimizer.add_param_group({"params": list(adapter.parameters())})
        for _ in range(4):
            adapter(body(torch.randn(64, 1024, device=DEVICE)).repeat(1, 2)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        del adapter


globals()[sys.argv[1]]()

# SPDX-License-Identifier: MIT
"""Programs that keep what they should not, in the ways that programs do: kept.py CAUSE"""

import copy
import gc
import random
import sys

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda"
random.seed(4)


class Blocks(nn.Module):
    """A model of a class of its own: its lines are not those of the loop."""

    def __init__(self, width=1024, depth=4):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.inner = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.outer = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.act = nn.ModuleList(nn.GELU() for _ in range(depth))

    def forward(self, x):
        for norm, inner, act, outer in zip(self.norms, self.inner, self.act, self.outer):
            x = x + outer(act(inner(norm(x)) * 0.5))  # planted: hook_outputs
        return x


def train(model, optimizer, x):
    loss = model(x).square().mean()  # called: hook_outputs
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def stored_pairs():
    """States and the states after them are stored for later: two lines keep half each."""
    model, stored = Blocks().to(DEVICE), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(1000):
        state = torch.rand(4096, 1024).to(DEVICE)
        behind = torch.rand(6144, 1024).to(DEVICE)  # planted: stored_pairs
        stored.append((state, behind))
        train(model, optimizer, random.choice(stored)[0][:64])


def hook_outputs():
    """A hook keeps the outputs of some layers, which hold no more than themselves: backward frees what is between."""
    model, kept = Blocks().to(DEVICE), []
    for act in model.act:
        act.register_forward_hook(lambda module, inputs, output: kept.append(output))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(1000):
        train(model, optimizer, torch.randn(4096, 1024, device=DEVICE))


def snapshots():
    """The weights of each epoch are kept; an epoch has six steps."""
    model, best = Blocks(depth=16).to(DEVICE), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        for _ in range(6):
            train(model, optimizer, torch.randn(64, 1024, device=DEVICE))
        best.append(copy.deepcopy(model.state_dict()))  # planted: snapshots


def labels_too():
    """Evaluation under no_grad keeps its outputs, and the labels beside them."""
    model, outputs, labels = nn.Linear(1024, 4096, device=DEVICE), [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        train(model, optimizer, torch.randn(64, 1024, device=DEVICE))
    with torch.no_grad():
        for _ in range(1000):
            batch = torch.randn(4096, 1024).to(DEVICE)
            outputs.append(model(batch))  # planted: labels_too
            labels.append(batch)


def tables():
    """Inference, a table for each length that came: no step tells what is kept."""
    model, kept = Blocks().to(DEVICE), {}
    with torch.no_grad():
        for _ in range(1000):
            length = random.randrange(4000, 9000, 8)
            if length not in kept:
                kept[length] = torch.zeros(length, 4096, device=DEVICE)  # planted: tables
            model(kept[length][:, :1024])


class Words(nn.Module):
    """Logits in bf16, whose loss is taken of a shifted copy in float32."""

    def __init__(self, vocabulary):
        super().__init__()
        self.vocabulary, self.embed = vocabulary, nn.Embedding(vocabulary, 256)
        self.head = nn.Linear(256, vocabulary, bias=False)

    def forward(self, ids):
        logits = self.head(self.embed(ids))
        shifted = logits[:, :-1].float()  # planted: first_upcast
        return functional.cross_entropy(shifted.flatten(0, 1), ids[:, 1:].flatten())


def first_upcast():
    """The first copy of the logits in float32 does not fit: all rows but the last of each sequence."""
    model = Words(64000).to(DEVICE, torch.bfloat16)
    for length in (64, 128, 1600):
        model(torch.randint(0, 64000, (8, length), device=DEVICE)).backward()


def validate(model):
    total = 0
    for _ in range(1000):
        total += model(torch.randn(4096, 1024, device=DEVICE)).square().mean()  # called: validation
    return total


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(1024, 1024), nn.GELU())])

    def forward(self, x):
        return self.body(x)  # planted: validation


def validation():
    """The sum of all losses of a validation keeps their graphs; the line that calls the model is told, too."""
    model = Net().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        train(model, optimizer, torch.randn(64, 1024, device=DEVICE))
    validate(model)


def probes():
    """After every third step outputs for the same rows are kept for a plot, with their graphs; training is sound."""
    model, seen = Blocks().to(DEVICE), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = torch.randn(4096, 1024, device=DEVICE)
    for step in range(1000):
        train(model, optimizer, torch.randn(8192, 1024, device=DEVICE))
        for half in rows.chunk(2) if step % 3 == 2 else ():
            seen.append(model(half))  # called: probes


def retries():
    """Smaller batches are tried, each goes on further than the one before, and a list keeps the exceptions of all."""
    model, errors, rows = Net().to(DEVICE), [], 90000
    while rows > 4096:
        try:
            return model(torch.randn(rows, 1024, device=DEVICE)).square().mean().backward()  # called: retries
        except torch.OutOfMemoryError as error:
            errors.append(error)
        rows //= 2
    raise errors[-1]


def searched():
    """Ever narrower models are tried, none of which fits beside what the exceptions of those before keep."""
    errors = []
    for width in (7168, 5120, 3072):
        try:
            model = nn.Sequential(*(nn.Linear(width, width) for _ in range(6))).to(DEVICE)  # planted: searched
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(3):
                train(model, optimizer, torch.randn(64, width, device=DEVICE))
        except torch.OutOfMemoryError as error:
            errors.append((model, optimizer, error))
    raise errors[-1][2]


def streamed():
    """Layers are loaded between calls, and stay; the last one is tried twice at the line of all the others."""
    layers, x = [], torch.randn(4096, 4096, device=DEVICE)
    for width in (4096,) * 40 + (40000,):
        for is_last in (False, True):
            try:
                layers.append(nn.Linear(4096, width).to(DEVICE))
                layers[-1](x)  # planted: streamed
                break
            except torch.OutOfMemoryError:
                del layers[-1]
                if is_last:
                    raise


def circles():
    """An experiment's trainer and model hold each other; the next one begins before the collector comes."""

    class Trainer:
        def __init__(self):
            self.model = nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(12))).to(DEVICE)  # planted: circles
            self.model.trainer = self

    gc.disable()
    for _ in range(8):
        Trainer()


def small_circles():
    """Some memory waits for the collector, too little to matter: the model alone is too large."""

    class Pair:
        def __init__(self):
            self.other, self.rows = self, torch.randn(1 << 20, device=DEVICE)

    gc.disable()
    pairs = [Pair() for _ in range(8)]
    pairs.clear()
    nn.Sequential(*(nn.Linear(8192, 8192) for _ in range(20))).to(DEVICE)  # planted: small_circles


def kept_errors():
    """The errors of attempts that did not run through are listed, and each has the variables of its attempt."""

    def attempt(number):
        rows = torch.randn(1 << 28, device=DEVICE)  # planted: kept_errors
        raise ValueError(f"attempt {number} with {rows.numel()} rows")

    errors = []
    for number in range(8):
        try:
            attempt(number)
        except ValueError as error:
            errors.append(error)


def gradients():
    """One layer's gradients are kept for a plot; those of another of its shape go with the next step."""
    first, second = nn.Linear(2048, 2048).to(DEVICE), nn.Linear(2048, 2048).to(DEVICE)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    kept = []
    for _ in range(400):
        loss = second(first(torch.randn(32, 2048, device=DEVICE))).square().mean()  # planted: gradients
        optimizer.zero_grad()
        loss.backward()
        kept.append(first.weight.grad)
        optimizer.step()


def rollout():
    """What a policy says of each observation is kept with its graph, and this keeps the observations, which are larger."""
    policy = nn.Sequential(nn.Linear(1024, 512), nn.Tanh(), nn.Linear(512, 8)).to(DEVICE)
    optimizer = torch.optim.Adam(policy.parameters())
    for _ in range(4):
        said = []
        for _ in range(200):
            observation = torch.randn(4096, 1024, device=DEVICE)
            said.append(policy(observation).log_softmax(-1))  # planted: rollout
        torch.stack(said).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    globals()[sys.argv[1]]()

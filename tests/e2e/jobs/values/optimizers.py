# SPDX-License-Identifier: MIT
"""Optimizers whose step counters are on the device, and the same on the host: prints, by name, the counters after three
steps and after one more of an optimizer that has loaded the first one's state, and what the host read of kernels'."""

import inspect
import json

import torch
from torch import nn, optim

from reads import reads

NAMES = "AdamW Adam NAdam RAdam Adamax Adagrad ASGD Rprop Adadelta RMSprop".split()
WAYS = {"foreach": ("foreach", True), "loop": ("foreach", False), "capturable": ("capturable", True), "fused": ("fused", True)}


def counted(kind, options):
    model = nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 1))

    def step(optimizer):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    def steps(optimizer):
        return sorted({float(state["step"]) for state in optimizer.state.values()})

    first = kind(model.parameters(), **options)
    for _ in range(3):
        step(first)
    after_three = steps(first)
    second = kind(model.parameters(), **options)
    second.load_state_dict(first.state_dict())
    step(second)
    products = [] if options.get("capturable") else [float(state.get("mu_product", 0)) for state in second.state.values()]
    return after_three, steps(second), products


def takes(kind, option):
    return option in inspect.signature(kind).parameters and (kind, option) != (optim.Adagrad, "fused")  # only on the host


table = {}
for name in NAMES:
    kind = getattr(optim, name)
    for way, (option, value) in WAYS.items():
        if takes(kind, option):
            case = table[f"{name} {way}"] = {}
            for device in ("cuda",) if way == "capturable" else ("cuda", "cpu"):
                torch.set_default_device(device)
                case[device] = reads(lambda: counted(kind, {option: value}))
print(json.dumps(table))

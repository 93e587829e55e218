# SPDX-License-Identifier: MIT
"""Gradient scales, and learning rates that are tensors: prints what they are from step to step, and what the host read of
kernels' values."""

import json

import torch
from torch import nn
from torch.optim import lr_scheduler

from reads import reads

AMP = {"init_scale": 4, "growth_interval": 2}


def half_step(model, optimizer, scaler):
    with torch.autocast("cuda", torch.float16):
        loss = model(torch.ones(4, 8, device="cuda")).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return scaler.get_scale()


def grows():
    model, scaler = nn.Linear(8, 8).cuda(), torch.amp.GradScaler("cuda", **AMP)
    optimizer = torch.optim.AdamW(model.parameters())
    scales = [half_step(model, optimizer, scaler) for _ in range(4)][1:]
    loaded = torch.amp.GradScaler("cuda")
    loaded.load_state_dict(scaler.state_dict())
    scales.append(half_step(model, optimizer, loaded))
    return scales, loaded.state_dict()["scale"], loaded.state_dict()["growth_interval"]


def is_set():
    scaler = torch.amp.GradScaler("cuda", **AMP)
    scaler.scale(torch.zeros((), device="cuda"))
    scaler.update(8.0)
    scaler.update(torch.tensor(2.0, device="cuda"))
    return scaler.get_scale()


def halves(fused):
    """One weight, whose gradients are known: some are infinite."""
    weight, scaler = nn.Parameter(torch.ones((), device="cuda")), torch.amp.GradScaler("cuda", **AMP)
    optimizer, scales = torch.optim.AdamW([weight], fused=fused), []
    for factor in (1, 1e39, 1, float("nan")):
        scaler.scale(weight * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scales.append(scaler.get_scale())
    return scales, float(optimizer.state[weight]["step"])


def rates(device, schedule):
    weight = nn.Parameter(torch.ones(4, 4, device=device))
    optimizer = torch.optim.AdamW([weight], lr=torch.tensor(0.125, device=device), foreach=False, capturable=device == "cuda")
    scheduler, found = schedule(optimizer), []
    for _ in range(4):
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
        scheduler.step()
        found.append(float(optimizer.param_groups[0]["lr"]))
    return found


SCHEDULES = {
    "exponential": lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.5),
    "lambda": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch)),
    "one cycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=8),
}
table = {"grows": reads(grows), "is set": reads(is_set)}
table |= {"halves": reads(lambda: halves(False)), "halves fused": reads(lambda: halves(True))}
for name, schedule in SCHEDULES.items():
    table[name] = [reads(lambda: rates(device, schedule)) for device in ("cuda", "cpu")]
print(json.dumps(table))

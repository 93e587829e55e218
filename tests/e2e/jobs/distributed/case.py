# SPDX-License-Identifier: MIT
"""What the cases of the distributed jobs share: how one is marked, the model they train, and how."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

WIDTH, BLOCKS, STEPS = 512, 4, 2


@dataclass
class Place:
    """Where a case runs."""

    rank: int
    world: int
    device: torch.device
    folder: Path  # for what a case writes: the same on all ranks


def case(function):
    """Mark a function of a Place as a case that worker.py can run."""
    function.is_case = True
    return function


def cases_of(*modules):
    """{name: case} of all that these modules mark."""
    return {
        name: found for module in modules for name, found in vars(module).items() if getattr(found, "is_case", False)
    }


def make_model(device="cuda", width=WIDTH, blocks=BLOCKS, dtype=None):
    """Blocks of two linear layers; their weights are larger than a message that moves data, their biases are not."""
    return nn.Sequential(
        *(
            nn.Sequential(
                nn.Linear(width, 4 * width, device=device, dtype=dtype),
                nn.GELU(),
                nn.Linear(4 * width, width, device=device, dtype=dtype),
            )
            for _ in range(blocks)
        )
    )


def train(model, optimizer, rows=16, clip=True, width=WIDTH, steps=STEPS, dtype=None):
    """A few steps with clipped gradients; returns their norms, which all ranks must agree on."""
    norms = []
    for _ in range(steps):
        output = model(torch.randn(rows, width, device="cuda", dtype=dtype))
        output.sum().backward()
        if clip:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            norms.append(float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm))
        optimizer.step()
        optimizer.zero_grad()
    return norms

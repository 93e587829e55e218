# SPDX-License-Identifier: MIT
"""Finds a learning rate with a range test, puts the model back as it was and trains a regressor with it."""

import copy
from contextlib import contextmanager

import torch
from torch import nn


class ResidualMLP(nn.Module):
    def __init__(self, features=64, width=1536, depth=5):
        super().__init__()
        self.first = nn.Linear(features, width)
        self.hidden = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(depth)
        )
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        x = self.first(x)
        for layer in self.hidden:
            x = x + layer(x)
        return self.last(x).squeeze(-1)


@contextmanager
def restored(model, optimizer):
    """What happens to the two in the block is undone at its end."""
    weights = copy.deepcopy(model.state_dict())
    state = copy.deepcopy(optimizer.state_dict())
    try:
        yield
    finally:
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)


def train_step(model, optimizer, batch_size):
    x = torch.randn(batch_size, 64, device="cuda")
    y = x.square().sum(dim=1).sqrt()
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def range_test(model, optimizer, lowest=1e-6, highest=1.0, steps=25):
    curve = []
    with restored(model, optimizer):
        for i in range(steps):
            lr = lowest * (highest / lowest) ** (i / (steps - 1))
            for group in optimizer.param_groups:
                group["lr"] = lr
            curve.append((lr, train_step(model, optimizer, 512)))
    return curve


def main():
    torch.manual_seed(8)
    model = ResidualMLP().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for phase in range(3):
        curve = range_test(model, optimizer)
        lr = curve[len(curve) // 2][0] / (1 + phase)
        for group in optimizer.param_groups:
            group["lr"] = lr
        for _ in range(25):
            train_step(model, optimizer, 2048)
        print(f"phase {phase}: trained at {lr:.1e}")


if __name__ == "__main__":
    main()

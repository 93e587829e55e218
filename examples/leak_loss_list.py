# SPDX-License-Identifier: MIT
"""Train a small classifier, and keep every loss for a plot that is never drawn.

The bug is in the last line of train(): each loss is a tensor on the GPU, and each holds its graph. A number
(loss.mean().item()) would have done.
"""
import argparse

import torch
from torch import nn
from torch.nn import functional

losses = []


def train(steps, batch):
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = torch.randn(batch, 64).cuda()
    labels = torch.randint(10, (batch,)).cuda()
    for _ in range(steps):
        scores = model(samples)
        loss = functional.cross_entropy(scores, labels, reduction="none")
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()
        losses.append(loss)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=131072)
    args = parser.parse_args()

    train(args.steps, args.batch)
    kept = sum(loss.untyped_storage().nbytes() for loss in losses)
    print(f"kept {len(losses)} tensors, {kept} bytes")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""Trains one of three networks: batches.py NETWORK BATCH [STEPS].

batches.py NETWORK --sweep FIRST LAST: which batches fit, each in a process of its own, without any early end.
"""

import json
import os
import sys

import torch
from torch import nn


class Perceptron(nn.Sequential):
    def __init__(self):
        super().__init__(*(layer for _ in range(6) for layer in (nn.Linear(8192, 8192), nn.GELU())))

    def batch(self, size):
        return torch.randn(size * 2048, 8192, device="cuda")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(32000, 1024)
        layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)
        self.head = nn.Linear(1024, 32000)

    def batch(self, size):
        return torch.randint(0, 32000, (size, 2048), device="cuda")

    def forward(self, x):
        return self.head(self.layers(self.words(x)))


class Convolution(nn.Sequential):
    def __init__(self):
        layers, channels = [], 3
        for wide in (64, 128, 256, 512):
            layers += [nn.Conv2d(channels, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU(), nn.MaxPool2d(2)]
            channels = wide
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))

    def batch(self, size):
        return torch.randn(size * 96, 3, 256, 256, device="cuda")


NETWORKS = {"perceptron": Perceptron, "attention": Attention, "convolution": Convolution}


def train(network, size, steps):
    model = NETWORKS[network]().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        loss = model(model.batch(size)).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def fits(network, size):
    child = os.fork()
    if not child:
        try:
            train(network, size, 5)
        except torch.OutOfMemoryError:
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1), f"{network} {size}: {status}"
    return status == 0


if sys.argv[2] == "--sweep":
    first, last = int(sys.argv[3]), int(sys.argv[4])
    print(json.dumps([size for size in range(first, last + 1) if fits(sys.argv[1], size)]))
else:
    train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 5)

# SPDX-License-Identifier: MIT
"""Trains a small language model as people do: nothing leaks, and nothing is fragmented beyond what is usual.

usage: healthy.py [--warm-up] [--evaluate] [--lengths] [--save] [--accumulate] [--all]
"""

import io
import random
import sys

import torch
from torch.nn import functional

from ledger import print_ledger

HABITS = set(sys.argv[1:])
WIDTH, LAYERS, HEADS, WORDS, BATCH, LENGTH = 768, 6, 12, 32000, 8, 512


def has(habit):
    return not HABITS.isdisjoint({f"--{habit}", "--all"})


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, text):
        return self.head(self.layers(self.words(text)))


def text(length):
    return torch.randint(WORDS, (BATCH, length), device="cuda")


def loss_of(model, batch):
    return functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten())


def evaluate(model):
    model.eval()
    with torch.no_grad():
        total = sum(loss_of(model, text(2 * LENGTH)) for _ in range(3))
    model.train()
    return float(total)


def main():
    random.seed(3)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    if has("warm-up"):
        loss_of(model, text(64)).backward()
        optimizer.zero_grad()
    for step in range(1, 31):
        for _ in range(4 if has("accumulate") else 1):
            length = random.randrange(32, 2 * LENGTH) if has("lengths") else LENGTH
            loss_of(model, text(length)).backward()
        optimizer.step()
        optimizer.zero_grad()
        if has("evaluate") and step % 10 == 0:
            evaluate(model)
        if has("save") and step % 10 == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, io.BytesIO())


main()
print_ledger()

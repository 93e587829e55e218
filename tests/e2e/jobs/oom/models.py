# SPDX-License-Identifier: MIT
"""Programs whose model fills the memory: its output, its older self, what is trained of it: models.py CAUSE"""

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


globals()[sys.argv[1]]()

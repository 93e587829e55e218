# SPDX-License-Identifier: MIT
"""Classifies source files with an encoder that uses ALiBi position biases, files of one length per batch."""

import functools
import random

import torch
import torch.nn.functional as F
from torch import nn

HEADS = 12


@functools.cache
def alibi_bias(length, heads=HEADS):
    slopes = 2.0 ** -(8.0 * torch.arange(1, heads + 1, device="cuda") / heads)
    positions = torch.arange(length, device="cuda")
    distance = (positions[None, :] - positions[:, None]).abs()
    return -slopes.view(1, heads, 1, 1) * distance


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=alibi_bias(t))
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self, vocab=8000, dim=384, depth=3, classes=30):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(dim=1))


def main():
    rng = random.Random(5)
    model = Encoder().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(150):
        length = rng.randrange(800, 1600)
        ids = torch.randint(0, 8000, (2, length), device="cuda")
        labels = torch.randint(0, 30, (2,), device="cuda")
        loss = F.cross_entropy(model(ids), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""Trains a tiny latent diffusion denoiser with self-attention on 96x96 latents."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class SelfAttention2d(nn.Module):
    def __init__(self, channels, heads=8):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(8, channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, height, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, 3, self.heads, c // self.heads, height * width).unbind(1)
        scores = torch.einsum("bhci,bhcj->bhij", q, k) / math.sqrt(c // self.heads)
        weights = scores.softmax(dim=-1)
        y = torch.einsum("bhij,bhcj->bhci", weights, v).reshape(b, c, height, width)
        return x + self.out(y)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, t_dim=128):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.time = nn.Linear(t_dim, cout)
        self.skip = nn.Conv2d(cin, cout, 1)

    def forward(self, x, t):
        h = F.silu(self.conv1(x)) + self.time(t)[:, :, None, None]
        return self.skip(x) + F.silu(self.conv2(h))


class Denoiser(nn.Module):
    def __init__(self, latent=4, width=64):
        super().__init__()
        self.inp = ResBlock(latent, width)
        self.attn = SelfAttention2d(width)
        self.mid = ResBlock(width, width)
        self.final = nn.Conv2d(width, latent, 3, padding=1)

    def forward(self, x, t):
        freqs = torch.exp(torch.arange(64, device=x.device) * (-math.log(10000.0) / 64))
        angles = t[:, None] * freqs
        emb = torch.cat([angles.sin(), angles.cos()], dim=-1)
        return self.final(self.mid(self.attn(self.inp(x, emb)), emb))


def main():
    model = Denoiser().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(1000):
        latents = torch.randn(1, 4, 96, 96, device="cuda")
        noise = torch.randn_like(latents)
        t = torch.rand(1, device="cuda")
        alpha = torch.cos(t * math.pi / 2).view(-1, 1, 1, 1)
        noisy = alpha * latents + (1 - alpha**2).sqrt() * noise
        loss = F.mse_loss(model(noisy, t * 1000), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""Momentum contrast: contrastive pre-training with a queue of the keys of earlier batches as negatives."""

import random
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn


def encoder(dim):
    layers, cin = [], 3
    for cout in (32, 64, 128):
        layers += [nn.Conv2d(cin, cout, 3, stride=2, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)]
        cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, dim))


class MoCo(nn.Module):
    def __init__(self, dim=256, queue_batches=48, momentum=0.995, temperature=0.2):
        super().__init__()
        self.query_encoder, self.key_encoder = encoder(dim), encoder(dim)
        self.key_encoder.load_state_dict(self.query_encoder.state_dict())
        self.key_encoder.requires_grad_(False)
        self.queue = deque(maxlen=queue_batches)
        self.momentum, self.temperature = momentum, temperature

    @torch.no_grad()
    def update_key_encoder(self):
        for key, query in zip(self.key_encoder.parameters(), self.query_encoder.parameters(), strict=True):
            key.lerp_(query, 1 - self.momentum)

    def forward(self, view1, view2):
        q = F.normalize(self.query_encoder(view1), dim=1)
        with torch.no_grad():
            self.update_key_encoder()
            k = F.normalize(self.key_encoder(view2), dim=1)
        positive = (q * k).sum(dim=1, keepdim=True)
        negative = q @ torch.cat(list(self.queue) or [k]).t()
        self.queue.append(k)
        logits = torch.cat([positive, negative], dim=1) / self.temperature
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))


def augment(images):
    noisy = images + 0.1 * torch.randn_like(images)
    return noisy.flip(-1) if random.random() < 0.5 else noisy


def main():
    model = MoCo().cuda()
    opt = torch.optim.SGD(model.query_encoder.parameters(), lr=0.03, momentum=0.9)
    for _ in range(110):
        images = torch.rand(512, 3, 64, 64, device="cuda")
        loss = model(augment(images), augment(images))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    print(len(model.queue), "batches of keys")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""Few-shot recogniser that matches local queries of each picture against a bank of exemplars."""

import torch
from torch import nn

BANK = nn.functional.normalize(torch.rand(49152, 192, device="cuda"), dim=-1)


class QueryNet(nn.Module):
    def __init__(self, dim=192):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 48, 7, stride=4, padding=3), nn.ReLU(), nn.Conv2d(48, dim, 3, stride=4, padding=1)
        )
        self.pool = nn.AdaptiveAvgPool2d(2)

    def forward(self, images):
        tokens = self.pool(self.stem(images)).flatten(2).transpose(1, 2)
        return nn.functional.normalize(tokens, dim=-1)


def match(queries, bank):
    """Similarity of every query with every exemplar: (batch, queries, exemplars)."""
    keys = bank.unsqueeze(0).expand(queries.shape[0], -1, -1).contiguous()
    return torch.bmm(queries, keys.transpose(1, 2))


def train():
    net = QueryNet().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    classifier = nn.Linear(192, 20).cuda()
    labels = torch.arange(96, device="cuda") % 20

    for _ in range(20):
        tokens = net(torch.rand(96, 3, 64, 64, device="cuda"))
        loss = nn.functional.cross_entropy(classifier(tokens.mean(dim=1)), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()

    for _ in range(200):
        queries = net(torch.rand(96, 3, 64, 64, device="cuda"))
        similarity = match(queries, BANK)
        loss = (1 - similarity.amax(dim=-1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    train()

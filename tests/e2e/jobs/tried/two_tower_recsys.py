# SPDX-License-Identifier: MIT
"""Trains a two-tower recommender with in-batch negatives."""

import torch
from torch import nn
from torch.nn import functional as F

N_USERS = 900_000
N_ITEMS = 1_300_000
DIM = 112


class Tower(nn.Module):
    def __init__(self, rows: int, dim: int):
        super().__init__()
        self.table = nn.Embedding(rows, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 256), nn.ReLU(), nn.Linear(256, dim))

    def forward(self, ids):
        return F.normalize(self.mlp(self.table(ids)), dim=-1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = Tower(N_USERS, DIM)
        self.items = Tower(N_ITEMS, DIM)
        self.log_temperature = nn.Parameter(torch.zeros(()))

    def forward(self, user_ids, item_ids):
        return self.users(user_ids) @ self.items(item_ids).t() * self.log_temperature.exp()


def interactions(batch_size):
    while True:
        yield (
            torch.randint(0, N_USERS, (batch_size,), device="cuda"),
            torch.randint(0, N_ITEMS, (batch_size,), device="cuda"),
        )


torch.manual_seed(0)
with torch.device("cuda"):
    model = TwoTower()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
target = torch.arange(2048, device="cuda")

for step, (user_ids, item_ids) in enumerate(interactions(2048)):
    if step == 500:
        break
    loss = F.cross_entropy(model(user_ids, item_ids), target)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()

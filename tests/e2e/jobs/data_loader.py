# SPDX-License-Identifier: MIT
"""Trains from a DataLoader with two worker processes and pinned memory."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from ledger import print_ledger

data = TensorDataset(torch.randn(256, 512), torch.randint(0, 10, (256,)))
model = torch.nn.Linear(512, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for x, target in DataLoader(data, batch_size=32, num_workers=2, pin_memory=True):
    loss = torch.nn.functional.cross_entropy(model(x.cuda(non_blocking=True)), target.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

print_ledger()

# SPDX-License-Identifier: MIT
"""accelerate's Accelerator: mixed precision, accumulated and clipped gradients, gathered results, one or more ranks."""

import os

import torch
from accelerate import Accelerator
from torch import nn

from ledger import print_ledger

WIDTH, CLASSES = 512, 10

accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, CLASSES))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
data = torch.utils.data.TensorDataset(torch.randn(128, WIDTH), torch.randint(0, CLASSES, (128,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

for x, target in loader:
    with accelerator.accumulate(model):
        loss = nn.functional.cross_entropy(model(x), target)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

model.eval()
with torch.no_grad():
    predictions = accelerator.gather_for_metrics(model(x).argmax(dim=1))
assert len(predictions) == 8 * accelerator.num_processes
accelerator.end_training()  # ends the process group, and the thread that holds the last collectives' tensors

print_ledger(pid=os.getpid())

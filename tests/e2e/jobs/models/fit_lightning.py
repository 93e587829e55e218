# SPDX-License-Identifier: MIT
"""Lightning's Trainer, bf16-mixed: python fit_lightning.py DEVICES. On several devices it starts the other ranks."""

import os
import sys

import lightning
import torch
from torch import nn

from ledger import print_ledger

WIDTH = 512


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, WIDTH), nn.LayerNorm(WIDTH), nn.GELU(), nn.Linear(WIDTH, 10))

    def training_step(self, batch, _):
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch, _):
        self.log("accuracy", (self.layers(batch[0]).argmax(1) == batch[1]).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def batches():
    data = torch.utils.data.TensorDataset(torch.randn(256, 64), torch.randint(0, 10, (256,)))
    return torch.utils.data.DataLoader(data, batch_size=32)


devices = int(sys.argv[1])
trainer = lightning.Trainer(
    accelerator="gpu",
    devices=devices,
    strategy="ddp" if devices > 1 else "auto",
    precision="bf16-mixed",
    max_epochs=2,
    gradient_clip_val=1.0,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
model = Model()
trainer.fit(model, batches(), batches())

if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()  # ends the thread that holds the last collectives' tensors
print_ledger(pid=os.getpid())

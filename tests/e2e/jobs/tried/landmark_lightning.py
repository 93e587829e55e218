# SPDX-License-Identifier: MIT
"""Learns dense descriptors of landmarks with Lightning, validating every few batches."""

import logging
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")


def conv_block(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=stride, padding=1), nn.BatchNorm2d(cout), nn.GELU())


class DenseDescriptors(L.LightningModule):
    def __init__(self, dim: int = 256):
        super().__init__()
        self.backbone = nn.Sequential(conv_block(3, 32, 2), conv_block(32, 64, 1), nn.Conv2d(64, dim, 1))
        self.classifier = nn.Linear(dim, 50)
        self.val_maps = []

    def training_step(self, batch, batch_idx):
        images, labels = batch
        pooled = self.backbone(images).mean(dim=(2, 3))
        return F.cross_entropy(self.classifier(pooled), labels)

    def validation_step(self, batch, batch_idx):
        images, _ = batch
        maps = F.normalize(self.backbone(images), dim=1)
        self.val_maps.append(maps)

    def on_validation_epoch_end(self):
        pooled = torch.cat([m.mean(dim=(2, 3)) for m in self.val_maps])
        self.log("val_spread", pooled.std(dim=0).mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def loader(n, batch_size):
    images = torch.zeros(n, 3, 64, 64)
    labels = torch.arange(n) % 50
    return DataLoader(TensorDataset(images, labels), batch_size=batch_size)


if __name__ == "__main__":
    trainer = L.Trainer(
        accelerator="gpu",
        devices=1,
        max_epochs=40,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(DenseDescriptors(), loader(32, 16), loader(256, 64))

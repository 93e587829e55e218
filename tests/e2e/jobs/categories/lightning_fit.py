# SPDX-License-Identifier: MIT
"""Lightning's Trainer with a loss written out by hand, which tells what its memory was for."""

import lightning
import torch
from torch import nn

from truth import Truth

truth = Truth()


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(512, 2048), nn.LayerNorm(2048), nn.GELU())
        self.decode = nn.Linear(2048, 512)
        self.scale = nn.Parameter(torch.ones(512))

    def training_step(self, batch, _):
        truth.input(batch)
        truth.parameters(self)
        error = self.decode(self.encode(batch[0])) * self.scale - batch[1]
        loss = (error**2).mean() + 1e-4 * error.abs().sum()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        truth.input(batch)
        self.log("error", (self.decode(self.encode(batch[0])) - batch[1]).abs().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3, weight_decay=1e-5)
        truth.optimizer(optimizer)
        return optimizer

    def on_fit_start(self):
        truth.model(self)


def batches():
    data = torch.utils.data.TensorDataset(torch.randn(4096, 512), torch.randn(4096, 512))
    return torch.utils.data.DataLoader(data, batch_size=512)


trainer = lightning.Trainer(
    accelerator="gpu", devices=1, precision="16-mixed", max_epochs=2, gradient_clip_val=0.5, accumulate_grad_batches=2,
    logger=False, enable_checkpointing=False, enable_progress_bar=False,
)
with truth.watch():
    trainer.fit(Regression(), batches(), batches())
truth.tell()

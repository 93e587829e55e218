# SPDX-License-Identifier: MIT
"""Trains MobileNetV3 with an exponential moving average of its weights, evaluated after each epoch."""

from collections import defaultdict

import torch
import torchvision
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return torch.zeros(3, 96, 96), index % 10


class Engine:
    def __init__(self, warmup=8):
        self.model = torchvision.models.mobilenet_v3_small(weights=None, num_classes=10).cuda()
        self.ema = None
        self.warmup = warmup
        self.seen = 0
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
        self.history = defaultdict(list)

    def fit_epoch(self, loader):
        self.model.train()
        running = torch.zeros((), device="cuda")
        for images, labels in loader:
            images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            loss = self.criterion(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            running += loss.detach()
            self.seen += 1
            if self.seen == self.warmup:
                self.ema = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True)
            elif self.ema is not None:
                self.ema.update_parameters(self.model)
        self.history["train"].append(running / len(loader))

    @torch.no_grad()
    def evaluate(self, loader):
        self.ema.eval()
        outputs, targets = [], []
        for images, labels in loader:
            outputs.append(self.ema(images.cuda()))
            targets.append(labels.cuda())
        logits, target = torch.cat(outputs), torch.cat(targets)
        self.history["eval"].append(self.criterion(logits, target))
        self.history["top1"].append((logits.argmax(1) == target).float().mean())


def main():
    engine = Engine()
    train, held_out = DataLoader(Pictures(500), batch_size=64), DataLoader(Pictures(320), batch_size=160)
    for _ in range(4):
        engine.fit_epoch(train)
        if engine.ema is not None:
            engine.evaluate(held_out)
    print({name: len(values) for name, values in engine.history.items()})


if __name__ == "__main__":
    main()

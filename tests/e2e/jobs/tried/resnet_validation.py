# SPDX-License-Identifier: MIT
"""Trains a small ResNet on random images and then computes the loss over the validation split."""

import timm
import torch
from torch import nn


def batches(n, size, seed):
    gen = torch.Generator(device="cuda").manual_seed(seed)
    for _ in range(n):
        images = torch.rand(size, 3, 112, 112, device="cuda", generator=gen)
        labels = torch.randint(0, 100, (size,), device="cuda", generator=gen)
        yield images, labels


def train_epoch(model, criterion, optimizer, data):
    model.train()
    for images, labels in data:
        optimizer.zero_grad(set_to_none=True)
        criterion(model(images), labels).backward()
        optimizer.step()


def validate(model, criterion, data):
    model.eval()
    val_loss, seen = 0.0, 0
    for images, labels in data:
        logits = model(images)
        val_loss = val_loss + criterion(logits, labels) * len(labels)
        seen += len(labels)
    return val_loss / seen


def main():
    torch.manual_seed(3)
    model = timm.create_model("resnet18", num_classes=100, pretrained=False).cuda()
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-5)
    for epoch in range(2):
        train_epoch(model, criterion, optimizer, batches(15, 32, epoch))
        loss = validate(model, criterion, batches(50, 32, 1000))
        print(f"epoch {epoch}: validation loss {float(loss):.3f}")


if __name__ == "__main__":
    main()

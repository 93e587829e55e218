# SPDX-License-Identifier: MIT
"""ResNet-50 from transformers, random weights, SGD with momentum."""

import torch
from transformers import ResNetConfig, ResNetForImageClassification

from ledger import print_ledger

BATCH, STEPS = 192, 3

config = ResNetConfig(
    embedding_size=64,
    hidden_sizes=[256, 512, 1024, 2048],
    depths=[3, 4, 6, 3],
    layer_type="bottleneck",
    num_labels=1000,
)
with torch.device("cuda"):
    model = ResNetForImageClassification(config)
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

for step in range(STEPS):
    images = torch.randn(BATCH, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (BATCH,), device="cuda")
    loss = model(pixel_values=images, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.4f}")

print_ledger()

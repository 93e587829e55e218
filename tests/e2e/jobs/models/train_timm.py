# SPDX-License-Identifier: MIT
"""timm: a ConvNeXt in channels_last with its own optimizer, scheduler, weight averaging and mixup."""

import os

import timm
import timm.data
import timm.loss
import timm.optim
import timm.scheduler
import timm.utils
import torch

from ledger import print_ledger

BATCH, CLASSES, STEPS = 8, 100, 3

model = timm.create_model("convnext_atto", pretrained=False, num_classes=CLASSES, drop_path_rate=0.1)
model = model.cuda().to(memory_format=torch.channels_last)
average = timm.utils.ModelEmaV3(model)
optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
scheduler = timm.scheduler.CosineLRScheduler(optimizer, t_initial=STEPS)
mixup = timm.data.Mixup(mixup_alpha=0.8, num_classes=CLASSES)
criterion = timm.loss.SoftTargetCrossEntropy()

for step in range(STEPS):
    images = torch.randn(BATCH, 3, 224, 224).cuda().contiguous(memory_format=torch.channels_last)
    images, targets = mixup(images, torch.randint(0, CLASSES, (BATCH,)).cuda())
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(images), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step(step)
    average.update(model, step=step)
    print(f"step {step}: loss {loss.item():.4f}")

print_ledger(pid=os.getpid())

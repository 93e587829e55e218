# SPDX-License-Identifier: MIT
"""DistributedDataParallel with its options, and the optimizer that shards its state."""

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from case import case, make_model, train


def train_ddp(place, model=None, **options):
    model = DistributedDataParallel(model or make_model(), device_ids=[place.device.index], **options)
    return train(model, torch.optim.AdamW(model.parameters()), rows=16 * (1 + place.rank))


@case
def ddp(place):
    return train_ddp(place)


@case
def ddp_find_unused_parameters(place):
    class HalfUsed(nn.Module):
        """Runs every other block, another half each time."""

        def __init__(self):
            super().__init__()
            self.blocks, self.turn = make_model(), 0

        def forward(self, x):
            self.turn += 1
            for block in self.blocks[self.turn % 2 :: 2]:
                x = block(x)
            return x

    return train_ddp(place, HalfUsed(), find_unused_parameters=True)


@case
def ddp_gradient_as_bucket_view(place):
    return train_ddp(place, gradient_as_bucket_view=True)


@case
def ddp_static_graph(place):
    return train_ddp(place, static_graph=True)


@case
def ddp_no_sync(place):
    """Gradient accumulation: every other backward pass stays on its rank."""
    model = DistributedDataParallel(make_model(), device_ids=[place.device.index])
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        with model.no_sync():
            model(torch.randn(16, 512, device="cuda")).sum().backward()
        train(model, optimizer, steps=1)


@case
def ddp_amp(place):
    """float16 autocast with a gradient scaler."""
    model = DistributedDataParallel(make_model(), device_ids=[place.device.index])
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), torch.amp.GradScaler("cuda")
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(torch.randn(16, 512, device="cuda")).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@case
def ddp_sync_batch_norm(place):
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 900, 10))
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model.cuda())
    model = DistributedDataParallel(model, device_ids=[place.device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.randn(4, 3, 32, 32, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def train_hooked(place, hook, state=None):
    model = DistributedDataParallel(make_model(), device_ids=[place.device.index])
    model.register_comm_hook(state, hook)
    return train(model, torch.optim.AdamW(model.parameters()), steps=3)


@case
def ddp_fp16_hook(place):
    return train_hooked(place, default_hooks.fp16_compress_hook)


@case
def ddp_bf16_hook(place):
    return train_hooked(place, default_hooks.bf16_compress_hook)


@case
def ddp_powersgd_hook(place):
    state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    return train_hooked(place, powerSGD_hook.powerSGD_hook, state)


@case
def ddp_zero_redundancy_optimizer(place):
    model = DistributedDataParallel(make_model(), device_ids=[place.device.index])
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.1)
    norms = train(model, optimizer)
    own = sum(p.numel() for group in optimizer.optim.param_groups for p in group["params"])
    assert own < sum(p.numel() for p in model.parameters())
    return norms

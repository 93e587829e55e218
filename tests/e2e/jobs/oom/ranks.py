# SPDX-License-Identifier: MIT
"""Two ranks of which one needs more than the other: ranks.py CAUSE FOLDER, by `run --ranks 0,1`"""

import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

RANK, FOLDER = int(os.environ["RANK"]), Path(sys.argv[2])
DEVICE = f"cuda:{os.environ['LOCAL_RANK']}"


def meet(name):
    """Both ranks come to this line before either goes on."""
    (FOLDER / f"{name}.{RANK}").touch()
    while not (FOLDER / f"{name}.{1 - RANK}").exists():
        time.sleep(0.01)


def network(width=1024, depth=4):
    return nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())]).to(DEVICE)


def rest():
    """The rank that fits has nothing to do until the other has failed, which ends both."""
    meet("fitted")
    time.sleep(100)


def train(model, rows, steps=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(rows, 1024, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def stages():
    """The last stage of a pipeline has the head over the vocabulary, too."""
    model = network()
    train(model, 8192)
    if RANK == 0:
        train(model, 8192)
        rest()
    heads = [nn.Linear(1024, 131072, device=DEVICE) for _ in range(6)]  # planted: stages
    meet("fitted")
    loss = sum(head(model(torch.randn(1024, 1024, device=DEVICE))).square().mean() for head in heads)
    loss.backward()


def batches():
    """Rank 0 gets the long sequences."""
    model = network()
    train(model, 8192)
    meet("trained")
    if RANK == 1:
        train(model, 16384, 12)
        rest()
    meet("fitted")
    for rows in (20000, 24000, 28000, 32000, 36000, 40000, 44000, 48000, 52000, 56000, 60000, 64000):
        train(model, 2 * rows, 1)  # planted: batches


def tables():
    """Rank 0 has a table besides; batches grow alike on both, and rank 1 has come to the end."""
    model = network()
    kept = [torch.zeros(1 << 29, device=DEVICE) for _ in range(1 - RANK)]  # planted: tables
    if RANK == 0:
        meet("fitted")
    for rows in range(8192, 36865, 4096):
        train(model, rows, 1)
    meet("fitted")
    rest()
    return kept


def halfway():
    """Rank 0 gets eight times as much; rank 1 never comes out of the backward pass in which rank 0 fails."""
    out = network()(torch.randn(65536 if RANK == 0 else 8192, 1024, device=DEVICE))  # planted: halfway

    def fail(grad):
        meet("fitted")
        return torch.cat([grad] * 8)

    out.register_hook(fail if RANK == 0 else lambda grad: rest())
    out.square().mean().backward()


def alike():
    """Both need too much, one of them fails first: no imbalance."""
    model = network(depth=8)
    train(model, 8192)
    meet("trained")
    train(model, 65536)


class Partly(nn.Module):
    """Has a part that it does not use."""

    def __init__(self, used, unused):
        super().__init__()
        self.used, self.unused = used, unused

    def forward(self, x):
        return self.used(x)


def buckets():
    """Gradients and DDP's buckets, and a part of the model that is not used; Adam's state does not fit any more."""
    torch.cuda.set_device(DEVICE)
    torch.distributed.init_process_group("nccl")
    model = Partly(network(4096, 12), network(4096, 2))
    model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)  # planted: buckets
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    model(torch.randn(64, 4096, device=DEVICE)).square().mean().backward()
    optimizer.step()


def second_pass():
    """The same where gradients of two passes are to add up: memory runs out in the second one's forward."""
    torch.cuda.set_device(DEVICE)
    torch.distributed.init_process_group("nccl")
    model = Partly(network(4096, 12), network(4096, 2))
    model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)  # planted: second_pass
    for rows in (64, 16384):
        model(torch.randn(rows, 4096, device=DEVICE)).square().mean().backward()


def groups():
    """Each process group takes buffers of NCCL's own, until the driver has no more of them."""
    torch.cuda.set_device(DEVICE)
    torch.distributed.init_process_group("nccl")
    kept = torch.empty(2 << 30, dtype=torch.uint8, device=DEVICE)
    for _ in range(100):
        group = torch.distributed.new_group()
        torch.distributed.all_reduce(kept[:1], group=group)  # planted: groups


globals()[sys.argv[1]]()

# SPDX-License-Identifier: MIT
"""stress_torch.py train|greenlets FOLDER ROUNDS: a model that learns, or greenlets that take turns within backward.

Keeps PyTorch's own figures in FOLDER/PID, after every round: begun, allocations, frees, live and peak bytes, as
account.h has them. Between rounds nothing is allocated."""

import mmap
import os
import struct
import sys

import torch

mode, folder, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
FIELDS = struct.Struct("<5Q")
with open(os.path.join(folder, str(os.getpid())), "w+b") as file:
    file.truncate(FIELDS.size)
    account = mmap.mmap(file.fileno(), FIELDS.size)


def note():
    stats = torch.cuda.memory_stats()
    allocs, frees = stats["allocation.all.allocated"], stats["allocation.all.freed"]
    live, peak = stats["allocated_bytes.all.current"], stats["allocated_bytes.all.peak"]
    account[:] = FIELDS.pack(2**63, allocs, frees, live, peak)  # how many have begun by now is not known


def train():
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(rounds):
        optimizer.zero_grad()
        model(torch.zeros(64, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        note()
        yield


def greenlets():
    import greenlet

    class Switch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            greenlet.getcurrent().parent.switch()
            torch.empty(1000, device="cuda")
            return gradient

    def job():
        x = torch.ones(8, requires_grad=True)  # on the CPU: its graph runs on this thread
        Switch.apply(x).sum().backward()

    for _ in range(rounds):
        one, other = greenlet.greenlet(job), greenlet.greenlet(job)
        one.switch()
        blocks = [torch.empty(100 + i, device="cuda") for i in range(50)]
        one.switch()
        other.switch()
        del blocks
        other.switch()
        note()
        yield


for _ in {"train": train, "greenlets": greenlets}[mode]():
    pass
print("done")

# SPDX-License-Identifier: MIT
"""Two ranks that the program starts by itself: rank 0 keeps what it gathers of both. spawned.py FOLDER"""

import sys

import torch
from torch import nn


def work(rank, folder):
    torch.distributed.init_process_group("nccl", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.cuda.set_device(rank)
    model, kept = nn.Linear(1024, 1024).cuda(), []
    with torch.inference_mode():
        for _ in range(1000):
            features = model(torch.randn(8192, 1024, device="cuda"))
            places = [torch.empty_like(features) for _ in range(2)] if rank == 0 else None  # planted: spawned
            torch.distributed.gather(features, places, dst=0)
            kept.append(places)


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (sys.argv[1],), nprocs=2)

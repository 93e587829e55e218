# SPDX-License-Identifier: MIT
"""Three steps of data-parallel training; each rank prints its allocator's peaks."""

import json
import os

import torch
import torch.distributed as dist

rank, device = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(device)
dist.init_process_group("nccl")
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).cuda()
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device])
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(64, 1024, device="cuda")).sum().backward()
    optimizer.step()
statistics = torch.cuda.memory_stats()
line = {
    "rank": rank,
    "allocated_peak": statistics["allocated_bytes.all.peak"],
    "reserved_peak": statistics["reserved_bytes.all.peak"],
}
os.write(1, (json.dumps(line) + "\n").encode())
dist.destroy_process_group()

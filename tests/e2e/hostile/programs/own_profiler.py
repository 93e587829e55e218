# SPDX-License-Identifier: MIT
"""PyTorch's profiler and its recorder of memory, both on; prints how often its allocator allocated."""

import torch
from torch.profiler import ProfilerActivity, profile

torch.cuda.memory._record_memory_history(stacks="python")
model = torch.nn.Linear(512, 512).cuda()
activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
with profile(activities=activities, profile_memory=True, with_stack=True) as seen:
    for _ in range(3):
        model(torch.randn(8, 512, device="cuda")).sum().backward()
assert len(seen.events()) > 100
print(torch.cuda.memory_stats()["allocation.all.allocated"], torch.cuda.memory_stats()["allocation.all.peak"])

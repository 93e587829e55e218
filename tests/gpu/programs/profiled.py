# SPDX-License-Identifier: MIT
"""Ten products of matrices under torch.profiler: how many kernels it has seen, by name."""

import torch
from torch.profiler import ProfilerActivity, profile

x = torch.ones(1024, 1024, device="cuda")
x @ x
torch.cuda.synchronize()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    for _ in range(10):
        x @ x
    torch.cuda.synchronize()
kernels = [event for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
print(len(kernels), "events on the GPU")

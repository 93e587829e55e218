# SPDX-License-Identifier: MIT
"""Memory that libraries take for themselves: cuBLAS, cuDNN, cuFFT, cuSOLVER and a communicator of one rank."""

import os
import tempfile

import torch
import torch.distributed as dist

x = torch.ones(1024, 1024, device="cuda")
(x @ x).sum()
torch.nn.Conv2d(16, 16, 3, device="cuda")(torch.ones(8, 16, 64, 64, device="cuda")).sum()
torch.fft.fft2(x)
torch.linalg.solve(x + 1024 * torch.eye(1024, device="cuda"), x)
if dist.is_nccl_available():
    store = dist.FileStore(os.path.join(tempfile.mkdtemp(), "store"), 1)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1)
    dist.all_reduce(x)
    dist.destroy_process_group()
torch.cuda.synchronize()
print("five libraries")

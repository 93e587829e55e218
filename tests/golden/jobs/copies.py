# SPDX-License-Identifier: MIT
"""Tensors that are filled from the host, copied into others, and read back."""

import torch

batch = torch.ones(300, 1000).to("cuda")
copy = batch.clone()
buffer = torch.empty(600, 1000, device="cuda")
buffer[:300].copy_(batch)
buffer[300:].copy_(torch.ones(300, 1000))
other = copy.to(torch.float16)
back = buffer.cpu()

# SPDX-License-Identifier: MIT
"""A program that gives PyTorch's allocator other settings, and gives back those that it found."""

import torch

give = torch._C._accelerator_setAllocatorSettings
first = torch.empty(60 << 20, dtype=torch.uint8, device="cuda")
give("max_split_size_mb:40,roundup_power2_divisions:[256:1,>:4]")
second = torch.empty(50 << 20, dtype=torch.uint8, device="cuda")
del first
third = torch.empty(45 << 20, dtype=torch.uint8, device="cuda")
give("")
del second
fourth = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")

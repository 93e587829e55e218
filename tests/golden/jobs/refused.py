# SPDX-License-Identifier: MIT
"""Asks for more than there is: the allocator gives back what it cached and gives up. A value is read, too."""

import torch

kept = torch.ones(3, device="cuda")
cached = torch.empty(40 << 20, device="cuda")
del cached
try:
    torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    refused = kept.sum().item()

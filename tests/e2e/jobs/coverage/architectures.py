# SPDX-License-Identifier: MIT
"""Kernels that CUB parametrises by architecture, on a GPU whose own one PyTorch was not compiled for."""

import torch

from ledger import print_ledger

device = torch.cuda.get_device_properties(0)
assert f"sm_{device.major}{device.minor}" not in torch.cuda.get_arch_list()
x = torch.randn(20000, device="cuda")
for _ in range(2):
    x.masked_select(x > 0)
    x.nonzero()
    x.unique()
    x.sort()
    x.cumsum(0)
    torch.prod(x)

print_ledger()

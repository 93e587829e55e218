# SPDX-License-Identifier: MIT
"""A program that resets PyTorch's peaks: the recording's are those of the whole run."""

import torch

from ledger import print_ledger

peaks = []
for width in (1024, 4096, 512):
    net = torch.nn.Linear(width, width, device="cuda")
    net(torch.randn(64, width, device="cuda")).sum().backward()
    del net
    torch.cuda.empty_cache()
    peaks.append((torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()))
    torch.cuda.reset_peak_memory_stats()
assert peaks[1] > peaks[2]
allocated, reserved = map(max, zip(*peaks))

print_ledger(**{"allocated_bytes.all.peak": allocated, "reserved_bytes.all.peak": reserved})

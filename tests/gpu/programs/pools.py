# SPDX-License-Identifier: MIT
"""Stream-ordered memory: tensors on two streams, trims, and a graph with memory of its own; 512 MiB at once at most."""

import torch

MIB = 1 << 20
streams = [torch.cuda.Stream() for _ in range(2)]
for turn in range(20):
    for stream in streams:
        with torch.cuda.stream(stream):
            block = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
            block.fill_(turn)
            del block
    torch.cuda.synchronize()
torch.cuda.empty_cache()
large = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("backend", torch.cuda.get_allocator_backend())

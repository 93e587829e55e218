# SPDX-License-Identifier: MIT
"""An allocator that is set up by PYTORCH_CUDA_ALLOC_CONF: growth, an out-of-memory, memory given back."""

import torch

from ledger import print_ledger

MIB = 2**20


def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


net = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for batch in (64, 128, 512, 256):
    net(torch.randn(batch, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
held = [take(size) for size in (3, 50, 7, 700, 21)]
del held[1::2]
before = torch.cuda.memory_reserved()
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() < before
free = torch.cuda.mem_get_info()[0]
try:
    take(free // MIB + 100)
except torch.OutOfMemoryError as error:
    print(str(error).splitlines()[0])
else:
    raise SystemExit("more than the device has was allocated")
held.append(take(free // MIB - 100))
with torch.cuda.stream(torch.cuda.Stream()):
    held.append(take(30))

print_ledger()

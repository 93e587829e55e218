# SPDX-License-Identifier: MIT
"""Tensors on two devices: made on both, copied between them, freed and released while the other one is current."""

import json

import torch

MIB = 2**20

assert torch.cuda.device_count() == 2
assert torch.cuda.can_device_access_peer(0, 1) and torch.cuda.can_device_access_peer(1, 0)
assert not torch.cuda.can_device_access_peer(0, 0)

first = torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda:0")
second = torch.zeros(96 * MIB, dtype=torch.uint8, device="cuda:1")
lookup = torch.arange(1000).to("cuda:0")  # made on the host: kernels compute nothing
moved = lookup.to("cuda:1", non_blocking=True)
assert torch.equal(moved.cpu(), torch.arange(1000))
assert torch.cuda.current_device() == 0

with torch.cuda.device(1):
    made_there = torch.empty(128 * MIB, dtype=torch.uint8, device="cuda")
    assert made_there.device.index == 1
    del first  # device 0's, while device 1 is current
    torch.cuda.empty_cache()
del made_there, second  # device 1's, while device 0 is current
torch.cuda.empty_cache()

free_bytes, total_bytes = zip(*(torch.cuda.mem_get_info(device) for device in (0, 1)))
stats = [torch.cuda.memory_stats(device) for device in (0, 1)]
print(
    json.dumps(
        {
            "peak_bytes": [one["allocated_bytes.all.peak"] for one in stats],
            "current_bytes": [one["allocated_bytes.all.current"] for one in stats],
            "reserved_peak_bytes": [one["reserved_bytes.all.peak"] for one in stats],
            "reserved_bytes": [one["reserved_bytes.all.current"] for one in stats],
            "free_bytes": free_bytes,
            "total_bytes": total_bytes,
            "names": [torch.cuda.get_device_name(device) for device in (0, 1)],
        }
    ),
    flush=True,
)

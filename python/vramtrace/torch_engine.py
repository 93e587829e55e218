# SPDX-License-Identifier: MIT
"""Serves recorded requests by the installed PyTorch's own allocator: `vramtrace whatif --engine torch` runs this text.

usage: python -c TEXT REQUESTS RESULT

REQUESTS, a line each:  a DEVICE SLOT BYTES STREAM POOL   a block for so many bytes; POOL 0 is the common one
                        x DEVICE BYTES STREAM             a request that failed in the recording
                        f DEVICE SLOT                     the block is freed
                        e DEVICE                          empty_cache()
                        s SETTINGS                        the program gives its allocator these
RESULT, a line for each device: DEVICE, the most reserved, the most allocated, requests that failed, the line of the first
request that failed but had been served (0: none), where the replay ends.
"""

import contextlib
import sys

import torch


class Device:
    def __init__(self, ordinal):
        self.ordinal, self.blocks, self.streams, self.pools = ordinal, {}, {}, {}
        self.failed = self.ended = 0

    def pool(self, number):
        if not number:
            return contextlib.nullcontext()
        if number not in self.pools:
            self.pools[number] = torch.cuda.MemPool()
        return torch.cuda.use_mem_pool(self.pools[number], device=self.ordinal)

    def stream(self, number):
        if not number:
            return 0
        if number not in self.streams:
            self.streams[number] = torch.cuda.Stream(self.ordinal)
        return self.streams[number]

    def take(self, size, stream, pool):
        """The address; None: there is no memory for it."""
        try:
            with self.pool(pool):
                return torch.cuda.caching_allocator_alloc(size, self.ordinal, self.stream(stream))
        except torch.OutOfMemoryError:
            self.failed += 1
            return None

    def serve(self, line, kind, numbers):
        if kind == "a":
            slot, size, stream, pool = numbers
            self.blocks[slot] = self.take(size, stream, pool)
            if not self.blocks[slot]:
                self.ended = line
        elif kind == "x":
            address = self.take(*numbers, 0)
            if address:
                torch.cuda.caching_allocator_delete(address)
        elif kind == "f":
            address = self.blocks.pop(numbers[0], None)
            if address:
                torch.cuda.caching_allocator_delete(address)
        else:
            with torch.cuda.device(self.ordinal):
                torch.cuda.empty_cache()


devices = {}
with open(sys.argv[1]) as requests:
    for line, text in enumerate(requests, 1):
        if text.startswith("s "):
            torch.cuda.memory._set_allocator_settings(text[2:].strip())
            continue
        kind, ordinal, *numbers = text.split()
        device = devices.setdefault(int(ordinal), Device(int(ordinal)))
        if not device.ended:
            device.serve(line, kind, list(map(int, numbers)))
with open(sys.argv[2], "w") as result:
    for ordinal, device in devices.items():
        stats = torch.cuda.memory_stats(ordinal)
        peaks = stats.get("reserved_bytes.all.peak", 0), stats.get("allocated_bytes.all.peak", 0)
        print(ordinal, *peaks, device.failed, device.ended, file=result)

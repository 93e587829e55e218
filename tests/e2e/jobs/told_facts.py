# SPDX-License-Identifier: MIT
"""Tells the recorder of modelled memory and of values read, as a simulated GPU would (tests/preload/told_facts.c)."""

import ctypes
import json
import sys
import threading

import torch

MIB = 1 << 20
told = ctypes.CDLL(None)


def alloc(owner, address, mib, device=0):
    told.told_alloc(device, owner, ctypes.c_uint64(address), ctypes.c_uint64(mib * MIB))


def free(owner, address, mib, device=0):
    told.told_free(device, owner, ctypes.c_uint64(address), ctypes.c_uint64(mib * MIB))


address = ctypes.c_uint64(0x7F0000000000)


def two_places():
    for _ in range(5):
        told.told_reads(0, address, ctypes.c_uint64(4), 1)
    told.told_reads(0, address, ctypes.c_uint64(8), 2)


alloc(b"nccl", 0x30, 8)  # before anything is recorded: nobody listens
first = torch.empty(20 * MIB, dtype=torch.uint8, device="cuda")
free_bytes, total_bytes = torch.cuda.mem_get_info()
used_bytes = total_bytes - free_bytes
alloc(b"nccl", 0x40, 64)
alloc(b"cudnn", 0x50, 16)
alloc(b"code", 0x60, 5)  # loaded later
alloc(b"somebody", 0x70, 1)
# At the address of a live block: it is that of no memory.
alloc(b"nccl", first.data_ptr(), 32)
second = torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")  # the driver's peak
free(b"nccl", first.data_ptr(), 32)
free(b"cudnn", 0x50, 16)
free(b"code", 0x60, 5)

two_places()
thread = threading.Thread(target=two_places)
thread.start()
thread.join()
# The frames of a value shadow lie between the program and what it does; they are nobody's place.
SHADOW = """
def read():
    told.told_reads(0, address, one_byte, 1)
    return torch.empty(1 << 21, dtype=torch.uint8, device="cuda")
"""
space = {"torch": torch, "told": told, "address": address, "one_byte": ctypes.c_uint64(1)}
exec(compile(SHADOW, "<simgpu values>", "exec"), space)
third = space["read"]()
if len(sys.argv) > 1:
    told.told_reads(0, address, ctypes.c_uint64(4), int(sys.argv[1]))
statistics = torch.cuda.memory_stats()
print(
    json.dumps(
        {
            "used_bytes": used_bytes,
            "allocated_peak": statistics["allocated_bytes.all.peak"],
            "reserved_peak": statistics["reserved_bytes.all.peak"],
        }
    )
)

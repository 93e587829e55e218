# SPDX-License-Identifier: MIT
"""One rank of a job that leaves nothing out of what a device can hold: a context, NCCL's buffers, a module, memory of
another process and its own; then, as one line, what CUDA says of it. Arguments: the module's bytes, the other process's."""

import ctypes
import json
import os
import struct
import subprocess
import sys

MODULE_BYTES, OTHER_BYTES = map(int, sys.argv[1:3])
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", 0))

HOLD = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), int(sys.argv[1])) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(sys.argv[2]))) == 0
print("held", flush=True)
sys.stdin.read()
"""


def cubin(size):
    """An ELF file of that size: a header, nothing, and an empty section table of one row at the end."""
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 190, 1, 0, 0, size - 64, 0, 64, 0, 0, 64, 1, 0)
    return header.ljust(size, b"\0")


other = subprocess.Popen(
    [sys.executable, "-c", HOLD, str(LOCAL_RANK), str(OTHER_BYTES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
assert other.stdout.readline() == b"held\n"

import torch  # noqa: E402

torch.cuda.set_device(LOCAL_RANK)
first = torch.zeros(1024, device="cuda")
if "RANK" in os.environ:
    torch.distributed.init_process_group("nccl")
    torch.distributed.all_reduce(first)
image, module = cubin(MODULE_BYTES), ctypes.c_void_p()
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuModuleLoadData(ctypes.byref(module), image) == 0
most = torch.empty(2**29, dtype=torch.uint8, device="cuda")
free, total = torch.cuda.mem_get_info()
stats = torch.cuda.memory_stats()
said = {"rank": LOCAL_RANK, "used": total - free, "reserved": stats["reserved_bytes.all.peak"]}
os.write(1, (json.dumps(said) + "\n").encode())  # in one piece: the ranks share a pipe
if "RANK" in os.environ:
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
other.communicate()

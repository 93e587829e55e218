# SPDX-License-Identifier: MIT
"""Calls the CUDA runtime that PyTorch has loaded, found in /proc/self/maps and opened again, as vLLM does."""

import ctypes

import torch

torch.cuda.init()
with open("/proc/self/maps") as maps:
    path = next(line.split()[-1] for line in maps if "libcudart" in line)
runtime, memory = ctypes.CDLL(path), ctypes.c_void_p()
assert runtime.cudaSetDevice(0) == 0
assert runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(64 << 20)) == 0
tensor = torch.zeros(1024, device="cuda")
print(torch.cuda.memory_reserved(), path.rsplit("/", 1)[1])

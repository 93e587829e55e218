# SPDX-License-Identifier: MIT
"""Opens NVIDIA's libraries with cuda.pathfinder, and memory with cuda.bindings, whose runtime is linked into it."""

import ctypes

from cuda.bindings import driver, runtime
from cuda.pathfinder import load_nvidia_dynamic_lib

print(int(runtime.cudaMalloc(1 << 20)[0]))
for name in ("cublas", "cudnn", "nccl", "nvrtc"):
    print(load_nvidia_dynamic_lib(name).abs_path.rsplit("/", 1)[1].split(".")[0])
cudart = ctypes.CDLL(load_nvidia_dynamic_lib("cudart").abs_path)
memory = ctypes.c_void_p()
assert cudart.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(3 << 20)) == 0
assert driver.cuMemAlloc(5 << 20)[0] == driver.CUresult.CUDA_SUCCESS

# SPDX-License-Identifier: MIT
"""numba-cuda: a kernel with a constant that is linked with a function in C++, and a module's variable."""

import os

os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"

import numpy as np
from cuda.bindings import driver, nvrtc
from numba import cuda, types

SOURCE = 'extern "C" __device__ int twice(int *result, int a) { *result = 2 * a; return 0; }'
TABLE = np.arange(4, dtype=np.float32)
twice = cuda.declare_device("twice", types.int32(types.int32), link=cuda.CUSource(SOURCE))


@cuda.jit
def kernel(x, y):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * table[i % 4] + twice(i)


def ok(answer):
    assert answer[0].value == 0, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]


x = cuda.to_device(np.ones(64, dtype=np.float32))
y = cuda.device_array_like(x)
kernel[2, 32](x, y)
cuda.synchronize()
assert y.copy_to_host().shape == (64,)

# A binary as NVRTC makes it says where its variables are, and with which values they begin.
program = ok(nvrtc.nvrtcCreateProgram(b"__device__ int start[3] = {4, 5, 6}; __constant__ double c;", b"a", 0, [], []))
ok(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"]))
image = b" " * ok(nvrtc.nvrtcGetCUBINSize(program))
ok(nvrtc.nvrtcGetCUBIN(program, image))
module = ok(driver.cuModuleLoadData(image))
address, size = ok(driver.cuModuleGetGlobal(module, b"start"))
values = np.zeros(3, dtype=np.int32)
ok(driver.cuMemcpyDtoH(values, address, size))
assert (size, values.tolist()) == (12, [4, 5, 6])
assert ok(driver.cuModuleGetGlobal(module, b"c"))[1] == 8
assert driver.cuModuleGetGlobal(module, b"none")[0] == driver.CUresult.CUDA_ERROR_NOT_FOUND
ok(driver.cuModuleUnload(module))

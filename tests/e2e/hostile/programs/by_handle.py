# SPDX-License-Identifier: MIT
"""Calls a CUDA library by the handle of its file, as vLLM's loaders, JAX, CuPy and users of ctypes do.

by_handle.py WHAT FILE: what each call answers, one JSON line.
"""

import ctypes
import json
import sys


def runtime(library):
    """vLLM's CudaRTLibrary: memory, and a handle that another process can open."""
    memory, handle = ctypes.c_void_p(), (ctypes.c_byte * 64)()
    yield "cudaSetDevice", library.cudaSetDevice(0)
    yield "cudaMalloc", library.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(64 << 20))
    yield "cudaIpcGetMemHandle", library.cudaIpcGetMemHandle(ctypes.byref(handle), memory)


def nccl(library):
    """vLLM's PyNccl: a communicator of one rank."""

    class Id(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_byte * 128)]

    unique, communicator = Id(), ctypes.c_void_p()
    yield "ncclGetUniqueId", library.ncclGetUniqueId(ctypes.byref(unique))
    yield "ncclCommInitRank", library.ncclCommInitRank(ctypes.byref(communicator), 1, unique, 0)


def create(function):
    """A library whose handle is made by `function`."""

    def calls(library):
        yield function, getattr(library, function)(ctypes.byref(ctypes.c_void_p()))

    return calls


def names(*wanted):
    """What a lookup of each name says when it fails."""

    def calls(library):
        for name in wanted:
            try:
                getattr(library, name)
                yield name, "found"
            except AttributeError as error:
                yield name, str(error)

    return calls


def cudnn(library):
    """A handle, and the version, for which the real cuDNN looks into the libraries that it is made of."""
    yield from create("cudnnCreate")(library)
    yield "cudnnGetVersion", int(library.cudnnGetVersion() < 9000)


WHAT = {
    "runtime": runtime,
    "nccl": nccl,
    "cublas": create("cublasCreate_v2"),
    "cudnn": cudnn,
    "cufft": create("cufftCreate"),
    "cusolver": create("cusolverDnCreate"),
    "cusparse": create("cusparseCreate"),
}
what, path, *wanted = sys.argv[1:]
calls = names(*wanted) if what == "names" else WHAT[what]
print(json.dumps(dict(calls(ctypes.CDLL(path)))))

# SPDX-License-Identifier: MIT
"""How many values the host has read that a kernel would have computed, as the simulated GPU tells its listener."""

import ctypes

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64)


class Listener(ctypes.Structure):
    """struct simgpu_listener of simgpu/report.h, as far as this needs it."""

    _fields_ = [
        ("struct_bytes", ctypes.c_uint32),
        ("modelled_alloc", ctypes.c_void_p),
        ("modelled_free", ctypes.c_void_p),
        ("value_read", CALLBACK),
    ]


sizes = []  # bytes of each read


def value_read(device, address, nr_bytes):
    sizes.append(nr_bytes)


listener = Listener(value_read=CALLBACK(value_read))
listener.struct_bytes = ctypes.sizeof(listener)
ctypes.CDLL(None).simgpu_listen(ctypes.byref(listener))


def reads(function):
    """(what the function returns, bytes of the reads of computed values that it makes)."""
    before = len(sizes)
    result = function()
    return result, sizes[before:]

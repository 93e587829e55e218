# SPDX-License-Identifier: MIT
"""Daemon threads with deep stacks allocate without the GIL while the interpreter finalises: daemons.py LIBRARY.

Half of them from one call into LIBRARY (spin.c) that never ends, half from a loop in Python.
"""
import ctypes
import sys
import threading
import time

runtime, library = ctypes.CDLL(None), ctypes.CDLL(sys.argv[1])
sys.setrecursionlimit(10000)


def loop():
    address = ctypes.c_void_p()
    while True:
        runtime.cudaMalloc(ctypes.byref(address), 4096)
        runtime.cudaFree(address)


def deep(n, last):
    return deep(n - 1, last) if n else last()


first = ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(first), 4096) == 0
for i in range(8):
    threading.Thread(target=deep, args=(300, (library.spin, loop)[i % 2]), daemon=True).start()
time.sleep(0.1)

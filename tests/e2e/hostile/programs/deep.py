# SPDX-License-Identifier: MIT
"""Allocations at many depths, past what is kept of a stack; prints a line for each: its size, how many frames there are."""
import ctypes
import sys
import threading

runtime = ctypes.CDLL(None)
address = ctypes.c_void_p()
size = 4096


def leaf():
    global size
    for _ in range(50):
        size += 512
        runtime.cudaMalloc(ctypes.byref(address), size)
        frame, frames = sys._getframe(), 0
        while frame:
            frame, frames = frame.f_back, frames + 1
        print(size, frames)
        runtime.cudaFree(address)


def deep(depth):
    return deep(depth - 1) if depth else leaf()


def work():
    runtime.cudaMalloc(ctypes.byref(address), 512)
    for depth in (10, 1000, 1015, 1035, 1050, 1020, 3000, 30, 1290, 9000):
        deep(depth)


sys.setrecursionlimit(20000)
threading.stack_size(512 << 20)  # until Python 3.10 calls take native stack
worker = threading.Thread(target=work)
worker.start()
worker.join()

# SPDX-License-Identifier: MIT
"""Sub-interpreters allocate, on the main thread and on others; so does what has made them, before and after."""
import ctypes
import sys
import threading

try:
    import _interpreters

    def make():
        return _interpreters.create("legacy")

    run = _interpreters.exec
except ImportError:
    import _xxsubinterpreters as _interpreters

    def make():
        return _interpreters.create(isolated=False) if sys.version_info >= (3, 9) else _interpreters.create()

    run = _interpreters.run_string

runtime = ctypes.CDLL(None)
held = ctypes.PyDLL(None)
address = ctypes.c_void_p()
CODE = """
import ctypes
runtime = ctypes.CDLL(None)
address = ctypes.c_void_p()
def inside(n):
    if n:
        return inside(n - 1)
    for _ in range(20):
        runtime.cudaMalloc(ctypes.byref(address), 8192)
        runtime.cudaFree(address)
inside(20)
"""


def outside(library, size):
    library.cudaMalloc(ctypes.byref(address), size)
    library.cudaFree(address)


def visit():
    for _ in range(3):
        interpreter = make()
        run(interpreter, CODE)
        outside(held, 16384)
        _interpreters.destroy(interpreter)


outside(runtime, 4096)
visit()
threads = [threading.Thread(target=visit) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
outside(runtime, 12288)

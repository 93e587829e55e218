# SPDX-License-Identifier: MIT
"""160 threads, 80 at a time, of which each allocates in functions of its own, at a depth of its own, and ends.

The size of thread N's allocations is 4096 * (N + 1); they are made in `leaf_N`, called by `turn_N` so often that
its stack has N % 40 frames of it, and in every tenth thread below 1,200 frames more.
"""
import ctypes
import sys
import threading

runtime = ctypes.CDLL(None)
sys.setrecursionlimit(5000)
SOURCE = """
def leaf_{n}():
    address = ctypes.c_void_p()
    for _ in range(10):
        assert runtime.cudaMalloc(ctypes.byref(address), 4096 * ({n} + 1)) == 0
        runtime.cudaFree(address)

def turn_{n}(left):
    return turn_{n}(left - 1) if left else leaf_{n}()

def deep_{n}(left):
    return deep_{n}(left - 1) if left else turn_{n}({n} % 40)
"""


def work(n, together):
    made = {"ctypes": ctypes, "runtime": runtime}
    exec(compile(SOURCE.format(n=n), f"made_{n}.py", "exec"), made)
    together.wait()
    made[f"deep_{n}"](1200) if n % 10 == 0 else made[f"turn_{n}"](n % 40)


threading.stack_size(16 << 20)
for first in range(0, 160, 80):
    together = threading.Barrier(80)
    threads = [threading.Thread(target=work, args=(n, together)) for n in range(first, first + 80)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

# SPDX-License-Identifier: MIT
"""Allocates driver memory without PyTorch, in one process or several. usage: processes.py MODE

alone     three allocations
start P   a shell that starts the script P alone
spawn     multiprocessing's spawn: two workers that allocate, one that does not; and it does itself
fork      the same by fork, before it uses CUDA itself
"""

import ctypes
import multiprocessing
import os
import subprocess
import sys


def allocate():
    cuda = ctypes.CDLL("libcuda.so.1")
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    for _ in range(3):
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 20)) == 0


def work(number):
    if number < 2:
        allocate()


def wipes_on_fork():
    """Whether the recorder has its state in this process: nobody else has a page like it."""
    with open("/proc/self/smaps") as maps:
        return any(line.startswith("VmFlags:") and " wf" in line for line in maps)


def main():
    mode = sys.argv[1]
    if mode == "alone":
        allocate()
    elif mode == "start":
        subprocess.run(["sh", "-c", f"'{sys.executable}' '{sys.argv[2]}' alone; true"], check=True)
    else:
        context = multiprocessing.get_context(mode)
        workers = [context.Process(target=work, args=(number,)) for number in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
        allocate()
    print(os.path.basename(__file__), mode, wipes_on_fork())


if __name__ == "__main__":
    main()

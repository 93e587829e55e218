# SPDX-License-Identifier: MIT
"""Ask for the number of devices, as torch.cuda.is_available() does, and fork. Python 3.12 warns where there are threads."""

import ctypes
import os

driver = ctypes.CDLL("libcuda.so.1")
number = ctypes.c_int()
assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(number)) == 0
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
print("devices", number.value)

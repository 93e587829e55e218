# SPDX-License-Identifier: MIT
"""One run of a job that differs from run to run: varying.py [--torch] FOLDER MIB[:THEN] ...

The number of marks in FOLDER says which run it is: it takes so many MiB, by PyTorch or by a call of its own, and then
ends with a status, waits, aborts or runs out of memory.
"""

import ctypes
import os
import sys
from pathlib import Path

by_torch = sys.argv[1] == "--torch"
folder, runs = Path(sys.argv[1 + by_torch]), sys.argv[2 + by_torch :]
number = len(list(folder.glob("run.*")))
(folder / f"run.{number}").touch()
mib, _, then = runs[number].partition(":")
if by_torch:
    import torch

    block = torch.empty(int(mib) << 20, dtype=torch.uint8, device="cuda")
else:
    address = ctypes.c_void_p()
    assert ctypes.CDLL(None).cudaMalloc(ctypes.byref(address), ctypes.c_size_t(int(mib) << 20)) == 0
if then == "wait":
    (folder / "waiting").write_text(f"{os.getpid()}\n")  # a pipe: its reader waits for us
    sys.stdin.read()
elif then == "abort":
    os.abort()
elif then == "oom":
    torch.empty(1 << 40, device="cuda")
elif then:
    sys.exit(int(then))

# SPDX-License-Identifier: MIT
"""faults.py oom | assert | endless exit|terminate|kill: runs into trouble on the GPU, and ends."""

import os
import signal
import sys

import torch

x = torch.ones(1 << 20, device="cuda")
torch.cuda.synchronize()
print("has worked", flush=True)

if sys.argv[1] == "oom":
    kept = [torch.empty(1 << 50, dtype=torch.uint8, device="cuda")]
elif sys.argv[1] == "assert":  # every later call fails, too: that of the recorder as well
    x[torch.tensor([1 << 30], device="cuda")]
    torch.cuda.synchronize()
elif sys.argv[1] == "endless":
    torch.cuda._sleep(10_000_000_000)  # some seconds: longer than it takes to end
    if sys.argv[2] == "exit":
        sys.exit(5)
    os.kill(os.getpid(), signal.SIGTERM if sys.argv[2] == "terminate" else signal.SIGKILL)

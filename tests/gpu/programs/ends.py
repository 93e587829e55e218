# SPDX-License-Identifier: MIT
"""ends.py END: works on the GPU, then ends in one way, or with a thread that still waits for the GPU."""

import atexit
import os
import signal
import sys
import threading

import torch

END = sys.argv[1]
x = torch.ones(2048, 2048, device="cuda", requires_grad=True)
(x @ x).sum().backward()
torch.cuda.synchronize()
atexit.register(lambda: os.write(1, b"at the end\n"))
print("has worked", flush=True)


def wait_for_gpu():
    while True:
        torch.cuda.synchronize()


if END == "exit 7":
    sys.exit(7)
elif END == "raise":
    raise RuntimeError("on purpose")
elif END == "_exit":
    os._exit(9)
elif END == "abort":
    os.abort()
elif END == "terminate":
    os.kill(os.getpid(), signal.SIGTERM)
elif END == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
elif END == "thread":
    threading.Thread(target=wait_for_gpu, daemon=True).start()
    sys.exit(3)

# SPDX-License-Identifier: MIT
"""torch_ends.py END: asks PyTorch for a GPU where the driver finds none, prints each answer, and ends in one way.

The order of the end is printed: handlers of atexit, objects that Python destroys, and a library's own end.
"""

import atexit
import os
import signal
import sys

import torch


class Last:
    def __del__(self):
        os.write(1, b"destroyed\n")


def attempt(name, call):
    try:
        print(name, call(), flush=True)
    except Exception as error:  # whatever it is, it is to be the same
        print(name, type(error).__name__, error, flush=True)


keep = Last()
atexit.register(lambda: os.write(1, b"first to register, last to run\n"))
attempt("available", torch.cuda.is_available)
attempt("count", torch.cuda.device_count)
attempt("initialized", torch.cuda.is_initialized)
attempt("empty", lambda: torch.empty(1 << 20, device="cuda"))
attempt("pinned", lambda: torch.empty(1 << 20, pin_memory=True))
attempt("name", lambda: torch.cuda.get_device_name(0))
attempt("memory", torch.cuda.mem_get_info)
attempt("allocated", lambda: torch.cuda.memory_allocated())
attempt("nccl", torch.cuda.nccl.version)
attempt("train", lambda: torch.nn.Linear(8, 8)(torch.ones(2, 8)).sum().backward())
atexit.register(lambda: os.write(1, b"last to register, first to run\n"))

END = sys.argv[1]
if END == "exit 7":
    sys.exit(7)
elif END == "raise":
    torch.zeros(1, device="cuda")
elif END == "_exit":
    os._exit(9)
elif END == "abort":
    os.abort()
elif END == "terminate":
    os.kill(os.getpid(), signal.SIGTERM)

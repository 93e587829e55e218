# SPDX-License-Identifier: MIT
"""Allocates ten tensors, then ends in the way its argument names."""

import os
import signal
import sys
import time

import torch

kept = [torch.empty(1 << 20, device="cuda") for _ in range(10)]
print("ten tensors", flush=True)

match sys.argv[1]:
    case "return":
        pass
    case "sys.exit":
        sys.exit(3)
    case "os._exit":
        os._exit(4)
    case "abort":
        os.abort()
    case "raise":
        raise ValueError("as planned")
    case "sigterm":
        os.kill(os.getpid(), signal.SIGTERM)
    case "sigkill":
        os.kill(os.getpid(), signal.SIGKILL)
    case "wait":
        time.sleep(600)
    case other:
        sys.exit(f"no such ending: {other!r}")

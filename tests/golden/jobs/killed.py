# SPDX-License-Identifier: MIT
"""Allocates and frees on several threads, and kills itself while the last of it is only in the ring file."""

import os
import signal
import sys
import threading
import time

import torch

PAUSE_S = float(sys.argv[1]) if len(sys.argv) > 1 else 2.5
KEPT = 8


def churn(first, count):
    kept = [None] * KEPT
    for number in range(first, first + count):
        kept[number % KEPT] = torch.empty(64 * (1 + number % 50), device="cuda")
    return kept


def late():
    """Code that no frame tells of: its definitions are in the ring file, too."""
    return [torch.empty(3, 5, 7, dtype=torch.complex64, device="cuda"), torch.empty(70 << 20, device="cuda")]


before = churn(0, 40)
time.sleep(PAUSE_S)
threads = [threading.Thread(target=churn, args=(1000 * number, 30)) for number in range(3)]
for thread in threads:
    thread.start()
kept = late()
for thread in threads:
    thread.join()
del before
os.kill(os.getpid(), signal.SIGKILL)

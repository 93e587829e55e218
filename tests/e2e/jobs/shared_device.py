# SPDX-License-Identifier: MIT
"""Two processes on one device: the second runs out of what the first holds, and fits once the first was killed.

Each process counts the devices in its own way: physical device 1 is cuda:1 here and cuda:0 in the other.
"""

import json
import os
import subprocess
import sys

import torch

GIB = 2**30
NEIGHBOUR = f"""
import torch
held = torch.empty(30 * {GIB}, dtype=torch.uint8, device="cuda:0")
print("ready", flush=True)
input()
"""


def used(device):
    free, total = torch.cuda.mem_get_info(device)
    return total - free


own = torch.empty(2**20, dtype=torch.uint8, device="cuda:1")
alone = used(1)
neighbour = subprocess.Popen(
    [sys.executable, "-c", NEIGHBOUR],
    env=os.environ | {"CUDA_VISIBLE_DEVICES": "1"},
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
)
assert neighbour.stdout.readline() == "ready\n"
together = used(1)
try:
    torch.empty(20 * GIB, dtype=torch.uint8, device="cuda:1")
    message = None
except torch.OutOfMemoryError as error:
    message = str(error)
other = torch.empty(20 * GIB, dtype=torch.uint8, device="cuda:0")
neighbour.kill()
neighbour.wait()
fits = torch.empty(30 * GIB, dtype=torch.uint8, device="cuda:1")
after = used(1)
print(
    json.dumps(
        {
            "pid": neighbour.pid,
            "alone": alone,
            "together": together,
            "after": after,
            "message": message,
        }
    )
)

# SPDX-License-Identifier: MIT
"""Allocates a tensor, fills the disk of a folder but for a little, and then allocates many more.

usage: fill_disk.py FOLDER
"""

import errno
import os
import sys

import torch

from ledger import print_ledger

LEFT_BYTES = 64 << 10
CHUNK = bytes(4096)

kept = [torch.empty(256, device="cuda") for _ in range(64)]

with open(os.path.join(sys.argv[1], "filler"), "wb", buffering=0) as filler:
    try:
        while True:
            filler.write(CHUNK)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    filler.truncate(filler.tell() - LEFT_BYTES)

for number in range(400_000):
    kept[number % 64] = None
    kept[number % 64] = torch.empty(256 * (1 + number % 300), device="cuda")

print_ledger()

# SPDX-License-Identifier: MIT
"""Closes every descriptor from 3 up, as daemons do, then opens files of its own under the same numbers.

usage: close_descriptors.py FOLDER
"""

import os
import sys
import time

import torch

from ledger import print_ledger

folder = sys.argv[1]
kept = [torch.empty(1 << 16, device="cuda") for _ in range(10)]
os.closerange(3, 1024)

own = [os.open(os.path.join(folder, f"own-{index}"), os.O_CREAT | os.O_WRONLY, 0o600) for index in range(32)]
for number in range(20000):
    kept[number % 10] = torch.empty(256 * (1 + number % 100), device="cuda")
time.sleep(0.3)  # the recorder writes behind the program's back: give it time to write to the wrong place
for descriptor in own:
    os.write(descriptor, b"own\n")

print_ledger()

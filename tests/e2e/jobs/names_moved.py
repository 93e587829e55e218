# SPDX-License-Identifier: MIT
"""names_moved.py before|after: two versions of a program, in which another function fills the same list, with more tensors."""

import sys
import time
from pathlib import Path

import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Linear(256, 256).cuda()
        self.bank = []

    def fill(self):
        for _ in range(10):
            self.bank.append(torch.zeros(1 << 20, device="cuda"))

    def stock_up(self, number):
        def rows(count):
            return [torch.ones(count, 1 << 10, device="cuda") for _ in range(number)]

        self.bank += rows(1 << 10)

    def fit(self, version):
        if version == "before":
            self.fill()
        else:
            self.stock_up(15)
        ask_for_too_much()
        self.model(torch.randn(64, 256, device="cuda")).sum().backward()


def ask_for_too_much():
    """A census is made then; go on once it is written."""
    try:
        torch.empty(1 << 45, device="cuda")
    except torch.OutOfMemoryError:
        pass
    for _ in range(600):
        if not any(path.read_text() for path in Path("/proc/self/task").glob("*/children")):
            break
        time.sleep(0.05)


Trainer().fit(sys.argv[1])

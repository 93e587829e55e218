# SPDX-License-Identifier: MIT
"""Forks after CUDA is in use: the child drops the parent's tensors, and can do nothing else with the GPU."""

import os

import torch

from ledger import print_ledger

kept = [torch.empty(1 << 18, device="cuda") for _ in range(8)]

child = os.fork()
if child == 0:
    kept.clear()
    os._exit(7)
_, status = os.waitpid(child, 0)

kept.append(torch.empty(1 << 19, device="cuda"))
del kept[:3]
print_ledger(child_status=os.waitstatus_to_exitcode(status))

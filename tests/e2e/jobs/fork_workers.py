# SPDX-License-Identifier: MIT
"""A parent that never touches CUDA, with forked workers that each do."""

import json
import os
import sys

import torch

WORKERS = 2

children = []
for index in range(WORKERS):
    child = os.fork()
    if child == 0:
        kept = [torch.empty(1 << 18, device="cuda") for _ in range(10 * (index + 1))]
        line = {"pid": os.getpid(), "bytes": torch.cuda.memory_allocated(), "blocks": len(kept)}
        os.write(1, (json.dumps(line) + "\n").encode())  # in one piece: the other worker writes, too
        os._exit(0)
    children.append(child)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))

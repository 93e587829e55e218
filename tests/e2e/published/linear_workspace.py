# SPDX-License-Identifier: MIT
"""What a Linear(1, 1) leaves behind once it and its output are gone: cuBLAS's workspace. The size is the width."""

import json
import sys

import torch

(width,) = sys.argv[1:]


def forward(width):
    torch.nn.Linear(width, width, device="cuda")(torch.randn(width, width, device="cuda"))


forward(int(width))
print(json.dumps({"bytes": {width: torch.cuda.memory_allocated()}, "peak": torch.cuda.max_memory_allocated()}))

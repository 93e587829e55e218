# SPDX-License-Identifier: MIT
"""Named by NVTX: steps and phases of a training loop; with `emit`, PyTorch names its operations as well.

What the ranges hold at the end of the forward pass is printed last, as JSON.
"""

import contextlib
import json
import sys

import torch
from torch.cuda import nvtx

MIB = 1 << 20
layers = [torch.nn.Linear(512, 512, bias=False, device="cuda") for _ in range(4)]
emit = torch.autograd.profiler.emit_nvtx() if "emit" in sys.argv else contextlib.nullcontext()
whole = nvtx.range_start("training")
with emit:
    for step in range(3):
        nvtx.range_push(f"step {step}")
        nvtx.mark("step begins")
        with nvtx.range("forward"), torch.autograd.profiler.record_function("model"):
            x = torch.ones(1024, 512, device="cuda")
            for layer in layers:
                x = torch.relu(layer(x))
            loss = x.sum()
        with nvtx.range("backward"):
            loss.backward()
        with nvtx.range("optimizer"):
            for layer in layers:
                layer.weight.data -= 0.1 * layer.weight.grad
                layer.weight.grad = None
        nvtx.range_pop()
        del x, loss
kept = [torch.empty(MIB, dtype=torch.uint8, device="cuda") for _ in range(3)]
nvtx.range_end(whole)
unnamed = torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
print(json.dumps({"end_bytes": torch.cuda.memory_allocated(), "peak_bytes": torch.cuda.max_memory_allocated()}))

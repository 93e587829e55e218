# SPDX-License-Identifier: MIT
"""steps.py [torch]: 200 training steps of a small language model, each timed; with PyTorch's own recorder if asked for."""

import json
import sys
import time

import torch
from torch import nn

STEPS, WARM = 200, 20
WIDTH, LAYERS, BATCH, LENGTH, WORDS = 512, 8, 8, 256, 4096

if "torch" in sys.argv:
    torch.cuda.memory._record_memory_history(stacks="python")
layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True, device="cuda")
model = nn.Sequential(nn.Embedding(WORDS, WIDTH, device="cuda"), nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False),
                      nn.Linear(WIDTH, WORDS, device="cuda"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
words = torch.zeros(BATCH, LENGTH, dtype=torch.int64, device="cuda")
took = []
for step in range(STEPS + WARM):
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    took.append(time.perf_counter_ns() - begin)
print(json.dumps({"step_ns": took[WARM:]}))

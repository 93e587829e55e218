# SPDX-License-Identifier: MIT
"""Two steps of training, with what a trace has of them: autograd nodes, phases, a second thread, frees at exit."""

import time

import torch

PAUSE_S = 0.25  # the recorder writes a frame meanwhile: the golden trace has several

model = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Linear(48, 8)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(2):
    time.sleep(PAUSE_S)
    x = torch.randn(16, 64, device="cuda")
    loss = model(x).square().sum()
    time.sleep(PAUSE_S)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
pinned = torch.empty(1000, dtype=torch.int16, pin_memory=True)

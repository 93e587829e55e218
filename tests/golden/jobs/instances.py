# SPDX-License-Identifier: MIT
"""Three layers that a loop calls, and another where one of them was: their stacks differ in nothing but the module."""

import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 64)

    def forward(self, x):
        return torch.relu(self.inner(x))


layers = torch.nn.ModuleList([Block() for _ in range(3)]).cuda()
x = torch.randn(16, 64, device="cuda", requires_grad=True)
for layer in layers:
    x = layer(x)
x.sum().backward()
y = torch.nn.Sequential(layers[0], layers[2])(x.detach())

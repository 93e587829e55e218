# SPDX-License-Identifier: MIT
"""A sum that leads to more nodes of autograd's graph with each step, and a census when memory runs out."""

import torch


def main():
    model = torch.nn.Linear(8, 4, device="cuda")
    total = 0
    for _ in range(3):
        total = total + model(torch.ones(2, 8, device="cuda")).sum()
    view = model.weight.t()
    try:
        torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass
    return total, view


main()

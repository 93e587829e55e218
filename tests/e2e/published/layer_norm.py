# SPDX-License-Identifier: MIT
"""Layer normalisation of 4096 fp32 rows, forward and backward; the size is the row's length."""

import torch

from peaks import print_peaks

ROWS = 4096


def prepare(width):
    # The benchmark makes the layer that it compares with, too; that one is never run.
    idle = torch.nn.LayerNorm(width, device="cuda")
    norm = torch.nn.LayerNorm(width, eps=1e-6, device="cuda")
    x = torch.randn(ROWS, width, device="cuda")
    gradient = torch.randn_like(x)
    x.requires_grad_(True)

    def step(_alive=idle):
        y = norm(x)
        y.backward(gradient, retain_graph=True)

    return step


print_peaks(prepare)

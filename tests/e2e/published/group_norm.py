# SPDX-License-Identifier: MIT
"""Group normalisation of 128 x channels x 512 in fp32, forward and backward; the size is the channels."""

import torch

from peaks import print_peaks

BATCH, LENGTH, GROUP = 128, 512, 4


def prepare(channels):
    # The benchmark makes the layer that it compares with, too; that one is never run.
    idle, norm = (torch.nn.GroupNorm(channels // GROUP, channels, eps=1e-6, device="cuda") for _ in range(2))
    x = torch.randn(BATCH, channels, LENGTH, device="cuda")
    gradient = torch.randn_like(x)
    x.requires_grad_(True)

    def step(_alive=idle):
        y = norm(x)
        y.backward(gradient, retain_graph=True)

    return step


print_peaks(prepare)

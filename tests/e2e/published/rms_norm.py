# SPDX-License-Identifier: MIT
"""A Llama's normalisation of 2048 bf16 rows, forward and backward; the size is the row's length."""

import torch

from peaks import print_peaks

ROWS = 2048


class RootMeanSquareNorm(torch.nn.Module):
    """Normalises in fp32 whatever it is given; its weight stays in fp32, and so does its result."""

    def __init__(self, width, epsilon=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.epsilon)
        return self.weight * x.to(dtype)


def prepare(width):
    # The benchmark makes the layer that it compares with, too; that one is never run.
    idle, norm = RootMeanSquareNorm(width).to("cuda"), RootMeanSquareNorm(width).to("cuda")
    x = torch.randn(ROWS, width, device="cuda", dtype=torch.bfloat16)
    gradient = torch.randn_like(x)
    x.requires_grad_(True)

    def step(_alive=idle):
        y = norm(x)
        y.backward(gradient, retain_graph=True)

    return step


print_peaks(prepare)

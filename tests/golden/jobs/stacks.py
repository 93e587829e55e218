# SPDX-License-Identifier: MIT
"""A few tensors below calls that go from Python through native code into Python, too deep for either stack."""

import functools
import sys

import torch


def make(number):
    return torch.empty(number, 3, device="cuda", dtype=torch.float16)


def nested(depth):
    return make(depth + 1) if depth == 0 else next(map(nested, [depth - 1]))


def recursive(depth):
    return make(depth + 1) if depth == 0 else recursive(depth - 1)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient + torch.ones(5, device="cuda")


sys.setrecursionlimit(10000)
kept = [functools.reduce(lambda _, number: make(number), [1, 2]), nested(170), recursive(5000)]
Doubled.apply(torch.ones(5, device="cuda", requires_grad=True)).sum().backward()
del kept[0]

# SPDX-License-Identifier: MIT
"""Total variation distance of 8 x 2048 fp32 distributions, forward and backward; the size is the vocabulary."""

import torch

from peaks import print_peaks

TOKENS = 8 * 2048


def distance(p, q):
    variation = torch.abs(p - q) / 2.0
    return torch.sum(variation) / p.size(0)


def prepare(vocabulary):
    p = torch.randn(TOKENS, vocabulary, device="cuda", requires_grad=True).softmax(dim=-1)
    q = torch.randn(TOKENS, vocabulary, device="cuda").softmax(dim=-1)

    def step():
        y = distance(p, q)
        y.backward(retain_graph=True)

    return step


print_peaks(prepare)

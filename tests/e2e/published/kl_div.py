# SPDX-License-Identifier: MIT
"""Kullback-Leibler divergence of 8 x 2048 fp32 distributions, forward and backward; the size is the vocabulary."""

import torch

from peaks import print_peaks

TOKENS = 8 * 2048


def prepare(vocabulary):
    divergence = torch.nn.KLDivLoss(reduction="batchmean")
    logs = torch.randn(TOKENS, vocabulary, device="cuda", requires_grad=True).log_softmax(dim=-1)
    target = torch.randn(TOKENS, vocabulary, device="cuda").softmax(dim=-1)

    def step():
        loss = divergence(logs, target)
        loss.backward(retain_graph=True)

    return step


print_peaks(prepare)

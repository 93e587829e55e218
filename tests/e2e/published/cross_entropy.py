# SPDX-License-Identifier: MIT
"""Cross entropy over fp32 logits of 8 x 2048 tokens, forward and backward; the size is the vocabulary."""

import torch

from peaks import print_peaks

TOKENS = 8 * 2048


def prepare(vocabulary):
    loss = torch.nn.CrossEntropyLoss()
    logits = torch.randn(TOKENS, vocabulary, device="cuda", requires_grad=True)
    target = torch.randint(vocabulary, (TOKENS, 1), device="cuda").squeeze(1)
    return lambda: loss(logits, target).backward()


print_peaks(prepare)

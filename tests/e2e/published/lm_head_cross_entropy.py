# SPDX-License-Identifier: MIT
"""A language model's head (4096 -> 128256, bf16) and cross entropy, forward and backward; the size is the tokens."""

import torch

from peaks import print_peaks

WIDTH, VOCABULARY = 4096, 128256


class HeadLoss(torch.nn.Module):
    """The loss from the last hidden states; the logits are its own."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False, dtype=torch.bfloat16)
        self.loss = torch.nn.CrossEntropyLoss(reduction="mean")

    def forward(self, x, target):
        logits = self.head(x)
        return self.loss(logits, target)


def prepare(tokens):
    # The benchmark makes the module that it compares with, too; that one is never run.
    with torch.device("cuda"):
        measured, idle = HeadLoss(), HeadLoss()
    x = torch.randn(tokens, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    target = torch.randint(VOCABULARY, (tokens, 1), device="cuda").squeeze(1)

    def step(_alive=idle):
        measured(x, target).backward()

    return step


print_peaks(prepare)

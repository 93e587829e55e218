# SPDX-License-Identifier: MIT
"""Allocates on the main thread, on named Python threads and on autograd's own thread."""

import threading

import torch

from ledger import print_ledger

ROUNDS = 50


def hold(kept, elements):
    """Keep every tenth tensor of many short-lived ones."""
    for number in range(ROUNDS):
        tensor = torch.empty(elements, device="cuda")
        if number % 10 == 0:
            kept.append(tensor)
        del tensor


torch.cuda.init()
kept = []
workers = [
    threading.Thread(target=hold, args=(kept, 1000 * (index + 1)), name=f"loader-{index}") for index in range(3)
]
for worker in workers:
    worker.start()
hold(kept, 500)
for worker in workers:
    worker.join()

weight = torch.randn(256, 256, device="cuda", requires_grad=True)
(weight @ weight).relu().sum().backward()

print_ledger(threads=len(workers))

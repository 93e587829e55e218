# SPDX-License-Identifier: MIT
"""What the host reads, and of which of it the simulated GPU says that a kernel would have computed it: prints the bytes
of each such read, by name."""

import json

import torch

from reads import reads


def known(*values):
    return torch.tensor(values, device="cuda")


logits = torch.randn(4, 8, device="cuda")
large = torch.ones(2 << 20, dtype=torch.int8)
total = torch.zeros(1, device="cuda")
flag = torch.zeros(3, dtype=torch.bool, device="cuda")
table = known(1, 2, 3, 4)
columns = torch.empty(4, 2, dtype=torch.long, device="cuda")
columns[:, 0] = table



def added(number, loss):
    torch._foreach_add_([number], [loss])
    return number


def replayed(number):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        number.add_(1)
    graph.replay()
    return number


cases = {
    "written by the host": lambda: known(1, 2).tolist(),
    "a float from the host": lambda: torch.tensor([1.5], device="cuda").item(),
    "cleared": lambda: torch.zeros(4, device="cuda").tolist(),
    "computed from what is known": lambda: ((known(1, 2) * 3).sum() > 2).item(),
    "copied within the device": lambda: torch.tensor([1.5, 2], device="cuda").clone().tolist(),
    "a size found in what is known": lambda: known(0, 5, 6).nonzero().shape,
    "a loss": lambda: logits.sum().item(),
    "a tensor that a loss was added to": lambda: total.add_(logits.sum()).item(),
    "the best of logits": lambda: logits.argmax(-1).tolist(),
    "computed from those": lambda: (logits.argmax(-1) + 1).max().item(),
    "a comparison of floats": lambda: bool((logits > 0).any()),
    "a size found in floats": lambda: (logits > 0).nonzero().shape,
    "a gap between what is known": lambda: columns[0].tolist(),
    "what is known beside a gap": lambda: columns[:, 0].contiguous().tolist(),
    "overwritten by floats": lambda: flag.copy_(logits[0, :3]).tolist(),
    "too large to be carried": lambda: large.cuda()[:2].tolist(),
    "more than a decision": lambda: logits.cpu().shape,
    "random": lambda: torch.randint(9, (2,), device="cuda").tolist(),
    "a random number": lambda: torch.ones((), device="cuda").exponential_().item(),
    "computed from a known number": lambda: (torch.full((), 2.0, device="cuda") * 3 - 1).item(),
    "computed from a loss and a known number": lambda: (torch.ones((), device="cuda") * logits.sum()).item(),
    "a number that a loss was added to": lambda: torch.ones((), device="cuda").add_(logits.sum()).item(),
    "numbers that losses were added to": lambda: added(torch.ones((), device="cuda"), logits.sum()).item(),
    "a number that a graph adds to": lambda: replayed(torch.ones((), device="cuda")).item(),
}
print(json.dumps({name: reads(function)[1] for name, function in cases.items()}))

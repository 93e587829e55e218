# SPDX-License-Identifier: MIT
"""
Tensors that keep graphs of autograd of many kinds, until memory runs out. Prints {address: nodes}, as PyTorch's own objects count
them: the most of the tensors that share a storage.
"""

import json

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def nodes_of(tensor):
    met, left = set(), [tensor.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in met:
            met.add(node)
            left.extend(following for following, _ in node.next_functions)
    return len(met)


def main():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 64)).cuda()
    cell = nn.GRUCell(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    total, state, history = 0, torch.zeros(32, 64, device="cuda"), []
    for _ in range(20):
        state = cell(model(x), state)
        total = total + state.mean()
        history.append(model(x).sum())
    view = state.reshape(64, 32)[3:].t()
    many = torch.cat([state[i] for i in range(32)])
    own = Twice.apply(model(x))
    again = checkpoint(model, state, use_reentrant=False)
    leaf = torch.ones(4, device="cuda", requires_grad=True)
    plain = torch.ones(4, device="cuda")
    counted = {}
    for tensor in (total, state, view, many, own, again, leaf, plain, *history):
        address = tensor.untyped_storage().data_ptr()
        counted[address] = max(counted.get(address, 0), nodes_of(tensor))
    print(json.dumps(counted), flush=True)
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass


main()

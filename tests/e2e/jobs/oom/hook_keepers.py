# SPDX-License-Identifier: MIT
"""A training loop whose hooks keep more with each step, until memory has run out, in one of several ways: hook_keepers.py WAY"""

import functools
import sys

import torch
from torch import nn

ROWS, WIDTH = 1 << 14, 1 << 10
everything = []


def make_remember(kept):
    def remember(module, given, out=None):
        kept.append(given[0].detach().clone())

    return remember


def make_remember_gradient():
    kept = []

    def remember(gradient):
        kept.append(torch.cat([gradient] * 16))

    return remember


def make_refer(kept):
    def refer(module, given):
        kept.append(given[0].detach())

    return refer


def put(kept, module, given, out):
    kept.append(given[0].clone())


class Watcher:
    def __init__(self):
        self.seen = []

    def remember(self, module, given):
        self.seen.append(given[0].clone())


def closure(layers):
    layers[0].register_forward_hook(make_remember([]))


def method(layers):
    layers[0].register_forward_pre_hook(Watcher().remember)


def partial(layers):
    layers[0].register_forward_hook(functools.partial(put, []))


def backward(layers):
    layers[1].register_full_backward_hook(make_remember([]))


def weight(layers):
    layers[0].weight.register_hook(make_remember_gradient())


def shared(layers):
    remember = make_remember([])
    for layer in layers:
        layer.register_forward_hook(remember)


def each_layer(layers):
    for layer in layers:
        layer.register_forward_hook(make_remember([]))


def several(layers):
    for name in ("first", "second", "third"):
        layers[0].register_forward_pre_hook(make_refer([name] * len(name)))


def global_list(layers):
    layers[0].register_forward_hook(make_remember(everything))


def main():
    layers = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(4)]).cuda()
    globals()[sys.argv[1]](layers)
    for _ in range(1000):
        layers(torch.randn(ROWS, WIDTH, device="cuda")).square().mean().backward()
        layers.zero_grad()


main()

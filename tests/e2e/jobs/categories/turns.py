# SPDX-License-Identifier: MIT
"""Loops whose lines update in turns that are not strict: within a loop of their own, now and then, or once for what is left."""

import sys

import torch
from torch import nn

networks = [nn.Linear(256, 256).cuda() for _ in range(2)]
first, second = (torch.optim.Adam(network.parameters()) for network in networks)


def learn(network, optimizer=None):
    loss = networks[network](torch.randn(32, 256, device="cuda")).square().mean()
    loss.backward()
    if optimizer:
        optimizer.step()
        optimizer.zero_grad()


def update_judge():
    learn(0, first)


def update_judge_often():
    for _ in range(3):
        learn(0, first)


def update_generator():
    learn(1, second)


def critic():
    for _ in range(5):
        for _ in range(2): update_judge()
        update_generator()


def critic_in_function():
    for _ in range(5):
        update_judge_often()
        update_generator()


def now_and_then():
    for i in range(10):
        learn(0, first)
        if i % 5 == 4:
            learn(1, second)


def every_other_comes_first():
    for i in range(8):
        if i % 2: update_judge()
        update_generator()


def remainder():
    for _ in range(2):
        for i in range(11):
            learn(0)
            if i % 4 == 3:
                first.step()
                first.zero_grad()
        first.step()
        first.zero_grad()


def resumed():
    for i in range(8):
        learn(0, first)
        if i == 4:
            first.load_state_dict(first.state_dict())


def without_state():
    """SGD's updates allocate nothing: what drops the gradients tells."""
    judge, maker = (torch.optim.SGD(network.parameters()) for network in networks)
    for _ in range(5):
        for _ in range(3):
            judge.zero_grad()
            learn(0)
            judge.step()
        maker.zero_grad()
        learn(1)
        maker.step()


def one_before():
    update_judge()
    for _ in range(6):
        learn(0, first)


globals()[sys.argv[1]]()

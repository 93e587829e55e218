# SPDX-License-Identifier: MIT
"""Coroutines that change places in the middle of backward, on one C stack, and allocate in turn.

usage: greenlets.py greenlet|gevent|eventlet [JOBS]. Each library copies the part of the C stack that another coroutine
needs. The graphs are on the host: backward runs on the calling thread. Prints what the gradients add up to. Of several
jobs in backward at once PyTorch says by itself, in its own words, that it cannot do that.
"""
import sys

import torch

ROUNDS = 20
JOBS = int(sys.argv[2]) if len(sys.argv) > 2 else 1


class Leave(torch.autograd.Function):
    """Its backward leaves the node in the middle, and comes back to it later."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        torch.empty(100, device="cuda")
        leave()
        torch.empty(200, device="cuda")
        return gradient


def job():
    torch.empty(300, device="cuda")
    with torch.enable_grad():  # PyTorch keeps the mode by thread: a node that was left has set it to none
        x = torch.ones(8, requires_grad=True)
        y = Leave.apply(x).sum()
    y.backward()
    torch.empty(400, device="cuda")
    sums.append(float(x.grad.sum()))


def churn(depth):
    """Deeper on the C stack than where the jobs were left, by a C function that calls Python."""
    if depth:
        return list(map(churn, (depth - 1,)))
    return [torch.empty(500 + i, device="cuda") for i in range(50)]


def with_greenlet():
    import greenlet

    def run():
        jobs = [greenlet.greenlet(job) for _ in range(JOBS)]
        for one in jobs:
            one.switch()
            churn(30)
        for one in jobs:
            one.switch()
            churn(10)

    return run, lambda: greenlet.getcurrent().parent.switch()


def with_gevent():
    import gevent

    def run():
        jobs = [gevent.spawn(job) for _ in range(JOBS)] + [gevent.spawn(churn, 30)]
        gevent.joinall(jobs, raise_error=True)

    return run, lambda: gevent.sleep(0)


def with_eventlet():
    import eventlet

    def run():
        jobs = [eventlet.spawn(job) for _ in range(JOBS)] + [eventlet.spawn(churn, 30)]
        for one in jobs:
            one.wait()

    return run, lambda: eventlet.sleep(0)


sums = []
run, leave = {"greenlet": with_greenlet, "gevent": with_gevent, "eventlet": with_eventlet}[sys.argv[1]]()
torch.empty(10, device="cuda")
for _ in range(ROUNDS):
    run()
print(len(sums), sum(sums))

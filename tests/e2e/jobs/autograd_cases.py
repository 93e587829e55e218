# SPDX-License-Identifier: MIT
"""Ways to run backward, one after the other. The functions whose names begin with `made_` are the forward of a node.

usage: autograd_cases.py CASE [CASE ...]
Prints for each case, as JSON, how many allocations there had been before it and how many after it.
"""

import json
import sys
import threading

import torch
from torch.utils.checkpoint import checkpoint

from ledger import print_ledger

SIDE = 1024


def parameter():
    return torch.randn(SIDE, SIDE, device="cuda", requires_grad=True)


def made_by_product(x, y):
    return torch.mm(x, y)


def made_by_activation(x):
    return torch.nn.functional.gelu(x)


def made_in_place(x):
    return x.relu_()


def made_by_slice(x):
    return x[: SIDE // 2]


def made_block(x, weight):
    return made_by_activation(made_by_product(x, weight))


class Scale(torch.autograd.Function):
    """A Python function with a gradient of its own."""

    @staticmethod
    def forward(ctx, x):
        return x * 2.0

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2.0


class Split(torch.autograd.Function):
    """A Python function with two results, of which only one is used: PyTorch makes the other's gradient before it
    calls backward."""

    @staticmethod
    def forward(ctx, x):
        return x * 2.0, x * 3.0

    @staticmethod
    def backward(ctx, gradient, unused):
        return gradient * 2.0


def made_by_function(x):
    return Scale.apply(x)


def made_by_split(x):
    return Split.apply(x)[0]


def plain():
    """An operation in place and a view, which allocate nothing in forward, and their neighbours, which do."""
    x = parameter()
    made_by_slice(made_in_place(made_by_product(x, x))).sum().backward()


def twice():
    """Two passes through one graph, and gradients that are accumulated."""
    x = parameter()
    y = made_by_activation(made_by_product(x, x)).sum()
    y.backward(retain_graph=True)
    y.backward()


def function():
    x = parameter()
    made_by_activation(made_by_function(x)).sum().backward()


def functions():
    """Backward of one Python function after another's."""
    x = parameter()
    made_by_function(made_by_split(made_by_function(made_by_split(x)))).sum().backward()


def recompute(use_reentrant):
    x, weight = parameter(), parameter()
    for _ in range(2):
        checkpoint(made_block, checkpoint(made_block, x, weight, use_reentrant=use_reentrant), weight,
                   use_reentrant=use_reentrant).sum().backward()  # fmt: skip


def gradient_of_gradient():
    x = parameter()
    (first,) = torch.autograd.grad(made_by_activation(made_by_product(x, x)).sum(), x, create_graph=True)
    first.square().sum().backward()


def threads():
    """Each thread has its own forward, numbers its own nodes, and calls backward itself."""

    def work(made):
        x = parameter()
        for _ in range(5):
            made(x).sum().backward()

    workers = [threading.Thread(target=work, args=(made,)) for made in (made_by_activation, made_by_function)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def host():
    """A backward on the CPU alone, then one that passes from the GPU to the CPU and back."""
    torch.ones(1, device="cuda")
    x = torch.randn(SIDE, SIDE, requires_grad=True)
    made_by_product(x, x).sum().backward()
    y = parameter()
    made_by_activation(made_by_product(y, y).cpu()).cuda().sum().backward()


def raises():
    """A hook that fails: the program sees its own exception."""
    error = ValueError("a hook of the program's own")

    def fail(gradient):
        raise error

    x = parameter()
    y = made_by_activation(x)
    y.register_hook(fail)
    try:
        y.sum().backward()
    except ValueError as caught:
        print("caught", caught is error, caught)


def exhausted():
    """Memory runs out inside backward."""
    x = torch.empty(12 << 30, dtype=torch.float16, device="cuda", requires_grad=True)  # 24 GiB
    y = made_by_activation(made_by_activation(x))
    try:
        y.backward(y)
    except torch.OutOfMemoryError as caught:
        print("caught", type(caught).__name__, str(caught).split(".")[0])


def compiled():
    """AOTAutograd: one node for a whole compiled function."""
    x = parameter()
    made_compiled = torch.compile(made_block, backend="aot_eager")
    for _ in range(2):
        made_compiled(x, x).sum().backward()


CASES = {
    "plain": plain,
    "twice": twice,
    "function": function,
    "functions": functions,
    "checkpoint": lambda: recompute(False),
    "reentrant": lambda: recompute(True),
    "double": gradient_of_gradient,
    "threads": threads,
    "host": host,
    "raises": raises,
    "exhausted": exhausted,
    "compiled": compiled,
}

for name in sys.argv[1:]:
    before = torch.cuda.memory_stats().get("allocation.all.allocated", 0)
    CASES[name]()
    print("case", name, json.dumps([before, torch.cuda.memory_stats()["allocation.all.allocated"]]))
# A thread of PyTorch's that still holds the last exception when Python ends takes the GIL to free it, and aborts
# the program; it has let go of it when the next backward is done.
parameter().sum().backward()
print_ledger()

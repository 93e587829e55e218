# SPDX-License-Identifier: MIT
"""Collectives on CPU tensors of groups some of whose ranks are absent, over the store.

Each function of COLLECTIVES does what PyTorch's function of its name does, with its arguments, for Group g.
"""

import functools

import torch

from . import job
from .job import Group, done_work, is_on_device


def copy_each(destinations, values):
    if len(destinations) != len(values):
        raise ValueError(f"{len(destinations)} tensors for {len(values)} ranks")
    for destination, value in zip(destinations, values):
        destination.copy_(value)


def combine(op, values):
    """One tensor out of those of all ranks, as PyTorch's ReduceOp says (None: the sum)."""
    kind = job.c10d.ReduceOp.RedOpType
    op = kind.SUM if op is None else getattr(op, "op", op)
    stacked = torch.stack(values)
    if op == kind.SUM:
        return stacked.sum(0, dtype=stacked.dtype)
    if op == kind.AVG:
        return stacked.sum(0, dtype=stacked.dtype) / len(values)
    if op == kind.PRODUCT:
        return stacked.prod(0, dtype=stacked.dtype)
    if op == kind.MIN:
        return stacked.amin(0)
    if op == kind.MAX:
        return stacked.amax(0)
    bitwise = {kind.BAND: torch.bitwise_and, kind.BOR: torch.bitwise_or, kind.BXOR: torch.bitwise_xor}
    return functools.reduce(bitwise[op], values)


def broadcast(g, tensor, src=None, group=None, async_op=False, group_src=None):
    tensor.copy_(g.exchange(tensor)[g.place(src, group_src)])


def all_reduce(g, tensor, op=None, group=None, async_op=False):
    tensor.copy_(combine(op, g.exchange(tensor)))


def reduce(g, tensor, dst=None, op=None, group=None, async_op=False, group_dst=None):
    values = g.exchange(tensor)
    if g.place(dst, group_dst) == g.me:
        tensor.copy_(combine(op, values))


def all_gather(g, tensor_list, tensor, group=None, async_op=False):
    copy_each(tensor_list, g.exchange(tensor))


def all_gather_into_tensor(g, output_tensor, input_tensor, group=None, async_op=False):
    output_tensor.copy_(torch.cat([value.flatten() for value in g.exchange(input_tensor)]).view_as(output_tensor))


def gather(g, tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    values = g.exchange(tensor)
    if gather_list:
        copy_each(gather_list, values)


def scatter(g, tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    source = g.exchange(scatter_list)[g.place(src, group_src)]
    if source:  # an absent root gives nothing
        tensor.copy_(source[g.me])


def reduce_scatter(g, output, input_list, op=None, group=None, async_op=False):
    output.copy_(combine(op, [values[g.me] for values in g.exchange(input_list)]))


def reduce_scatter_tensor(g, output, input, op=None, group=None, async_op=False):  # noqa: A002, PyTorch's name
    size = len(g.ranks)
    output.copy_(combine(op, [value.flatten().chunk(size)[g.me].view_as(output) for value in g.exchange(input)]))


def all_to_all(g, output_tensor_list, input_tensor_list, group=None, async_op=False):
    copy_each(output_tensor_list, [values[g.me] for values in g.exchange(input_tensor_list)])


def all_to_all_single(
    g, output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False  # noqa: A002
):
    size = len(g.ranks)
    sent = list(input.split(input_split_sizes or [input.shape[0] // size] * size))
    parts = output.split(output_split_sizes or [output.shape[0] // size] * size)
    copy_each(parts, [values[g.me] for values in g.exchange(sent)])


COLLECTIVES = (
    broadcast,
    all_reduce,
    reduce,
    all_gather,
    all_gather_into_tensor,
    gather,
    scatter,
    reduce_scatter,
    reduce_scatter_tensor,
    all_to_all,
    all_to_all_single,
)


def fill_gathered(work, tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """PyTorch gathers device tensors by sends and receives, which say nothing of what others would send."""
    g = Group(group)
    if gather_list and g.is_partial:
        if work is not None:
            work.wait()
        for place, gathered in enumerate(gather_list):
            if place not in g.present:
                gathered.copy_(gather_list[g.present[0]])
    return work


def group_of(ours, arguments, more):
    """The group among the arguments of the function that OURS replaces."""
    names = ours.__code__.co_varnames[1 : ours.__code__.co_argcount]
    return (dict(zip(names, arguments)) | more).get("group")


def adapted(real, ours):
    @functools.wraps(real)
    def collective(*arguments, **more):
        if is_on_device(arguments[0] if arguments else next(iter(more.values()))):
            work = real(*arguments, **more)
            return fill_gathered(work, *arguments, **more) if ours is gather else work
        g = Group(group_of(ours, arguments, more))
        if not g.is_ours:
            return real(*arguments, **more)
        ours(g, *arguments, **more)
        return done_work() if more.get("async_op") else None

    return collective


def adapted_barrier(real):
    @functools.wraps(real)
    def barrier(group=None, *arguments, **more):
        g = Group(group)
        if not g.is_ours:
            return real(group, *arguments, **more)
        g.exchange(None)
        return done_work() if more.get("async_op") else None

    return barrier


def adapt():
    for ours in COLLECTIVES:
        setattr(job.c10d, ours.__name__, adapted(getattr(job.c10d, ours.__name__), ours))
    for name in ("barrier", "monitored_barrier"):
        setattr(job.c10d, name, adapted_barrier(getattr(job.c10d, name)))

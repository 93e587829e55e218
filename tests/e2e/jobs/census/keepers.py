# SPDX-License-Identifier: MIT
"""Tensors that something else keeps each: prints {what: address} when memory has run out."""

import collections
import dataclasses
import functools
import gc
import json
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import torch
from torch import nn

SIZE = 1 << 18
placed = {}
module_global = None


def tensor(what):
    """A block of its own, and its address noted under what keeps it."""
    made = torch.ones(SIZE, device="cuda")
    placed[what] = made.data_ptr()
    return made


class Owner:
    class_attribute = None

    def __init__(self):
        self.history = [tensor("list"), tensor("list 1")]
        self.table = {"key": tensor("dict"), 7: tensor("dict of numbers")}
        self.group = {tensor("set")}
        self.queue = collections.deque([tensor("deque")], maxlen=4)


class Slotted:
    __slots__ = ("held",)


@dataclasses.dataclass
class Record:
    field: torch.Tensor


def make_closure():
    captured = tensor("closure")
    return lambda: captured


def with_default(value=None, *, named=None):
    return value, named


@functools.lru_cache
def cached(number):
    return tensor("lru_cache")


def generate():
    mine = tensor("generator")
    yield 1
    yield mine


class Context(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = tensor("ctx")
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Node:
    def __init__(self):
        self.itself, self.payload = self, tensor("cycle")


def raise_with_tensor(what):
    inner = tensor(what)
    raise ValueError(inner.shape)


class Labelled(np.ndarray):
    """A class of arrays of the program's own."""


def caught():
    try:
        raise_with_tensor("exception")
    except ValueError as error:
        return error


def hooked(kept):
    layer = nn.Linear(4, 4).cuda()
    layer.register_forward_hook(lambda module, given, out: kept.setdefault("out", tensor("hook")))
    layer(torch.ones(2, 4, device="cuda"))
    return layer


def wait_in_thread(ready, go):
    in_thread = tensor("thread")
    ready.set()
    go.wait()
    del in_thread


def wait_for_copies():
    """Until the census is written: at the program's end it would be cut where the machine is busy."""
    until = time.monotonic() + 20
    while any((task / "children").read_text() for task in Path("/proc/self/task").iterdir()) and time.monotonic() < until:
        time.sleep(0.05)


def main():
    global module_global
    owner, slotted = Owner(), Slotted()
    Owner.class_attribute = tensor("class attribute")
    module_global = tensor("module global")
    slotted.held = tensor("slots")
    record = Record(tensor("dataclass"))
    closure = make_closure()
    with_default.__defaults__ = (tensor("default argument"),)
    with_default.__kwdefaults__ = {"named": tensor("named default")}
    cached(1)
    partial = functools.partial(with_default, tensor("partial"))
    running = generate()
    next(running)
    by_hooks = {}
    layer = hooked(by_hooks)
    row, plane, view = np.empty(3, dtype=object), np.empty((2, 2), dtype=object), np.empty(8, dtype=object)[::-2]
    row[1], plane[1, 0], view[0] = tensor("array of objects"), tensor("array of two dimensions"), tensor("view of an array")
    labelled = np.empty(2, dtype=object).view(Labelled)
    labelled[0] = tensor("class of arrays")
    numbers = np.arange(3)
    context = Context.apply(torch.ones(4, device="cuda", requires_grad=True))
    error = caught()
    try:
        raise_with_tensor("last exception")
    except ValueError as last:
        sys.last_exc = last
        sys.last_value, sys.last_traceback = last, last.__traceback__
    weak = weakref.WeakValueDictionary()
    strong = tensor("weak and strong")
    weak["it"] = strong
    gc.disable()
    Node()
    ready, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=wait_in_thread, args=(ready, go))
    thread.start()
    ready.wait()
    try:
        torch.empty(1 << 45, device="cuda")
    except torch.OutOfMemoryError:
        print(json.dumps(placed))
    wait_for_copies()
    go.set()
    thread.join()
    return owner, record, closure, partial, layer, context, error, weak, row, plane, view, labelled, numbers


main()

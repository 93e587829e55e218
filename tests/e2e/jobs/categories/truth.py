# SPDX-License-Identifier: MIT
"""What blocks of GPU memory are for, by the program's own objects: the oracle of test_categories.py.

A Truth notes, as the program runs, which storage is what: parameters and buffers, gradients as they are accumulated,
the optimizer's state after each step, tensors that autograd saves, inputs of the model. A note holds how many
allocations the process had made: its block is the latest before that at this address.
"""

import contextlib
import json
import time

import torch
import torch.utils.checkpoint


def nr_allocations():
    return torch.cuda.memory_stats().get("allocation.all.allocated", 0)


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from tensors_of(member)
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from tensors_of(member)


class Truth:
    def __init__(self):
        self.notes = {}
        self.places, self.calls, self.running = {}, [], []
        self.backwards = []
        self.models, self.optimizers = [], []

    def note(self, category, *values):
        count = nr_allocations()
        for tensor in tensors_of(values):
            if tensor.is_cuda and not isinstance(tensor, torch._subclasses.FakeTensor):
                storage = tensor.untyped_storage()
                if storage.nbytes():
                    self.notes[category, storage.data_ptr(), count] = storage.nbytes()

    def input(self, *values):
        self.note("input", *values)

    def model(self, model, inputs=True):
        time.sleep(0.5)  # a census that was taken while the model was built gets done: the next is taken after it alone
        self.models.append(model)
        for name, module in model.named_modules():
            self.watch_module(name, module)

        def before_forward(model, arguments, options):
            self.note("input", (arguments, options) if inputs else ())
            self.parameters(model)

        model.register_forward_pre_hook(before_forward, with_kwargs=True)

    def place(self, name, tensor):
        """This tensor belongs to the module of that name."""
        if tensor.is_cuda:
            self.places[tensor.untyped_storage().data_ptr(), nr_allocations()] = name

    def watch_module(self, name, module):
        """Where its parameters, their gradients and what its forward allocates belong."""

        def enter(*_):
            self.running.append((name, nr_allocations()))
            for parameter in module.parameters(recurse=False):
                self.place(name, parameter)

        def leave(*_):
            self.calls.append([*self.running.pop(), nr_allocations()])

        def gradient(parameter):
            self.note("gradient", parameter.grad)
            self.place(name, parameter.grad)

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave)
        for parameter in module.parameters(recurse=False):
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(gradient)

    def parameters(self, model):
        self.note("parameter", list(model.parameters()))
        self.note("buffer", list(model.buffers()))

    def optimizer(self, optimizer):
        self.optimizers.append(optimizer)
        optimizer.register_step_post_hook(lambda o, *_: self.note("optimizer_state", list(o.state.values())))

    def saved(self, tensor):
        self.note("activation", tensor)
        return tensor

    @contextlib.contextmanager
    def watch(self):
        """Around training: what autograd saves, also when activation checkpointing computes it again."""
        plain_backward = torch.autograd.backward
        recompute = torch.utils.checkpoint._recomputation_hook
        plain_init = recompute.__init__

        def backward(*arguments, **options):
            self.backwards.append(nr_allocations())
            return plain_backward(*arguments, **options)

        def init(hook, *arguments, **options):
            plain_init(hook, *arguments, **options)
            pack = hook.pack_hook
            hook.pack_hook = lambda tensor: pack(self.saved(tensor))

        torch.autograd.backward, recompute.__init__ = backward, init
        try:
            with torch.autograd.graph.saved_tensors_hooks(self.saved, lambda tensor: tensor):
                yield
        finally:
            torch.autograd.backward, recompute.__init__ = plain_backward, plain_init

    def tell(self, **more):
        """Print all of it; the last thing the program does."""
        def size(tensors):
            storages = [t.untyped_storage() for t in tensors if t is not None and t.is_cuda]
            return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

        parameters = [p for model in self.models for p in model.parameters()]
        buffers = [b for model in self.models for b in model.buffers()]
        told = {
            "notes": [[category, address, count, size] for (category, address, count), size in self.notes.items()],
            "backwards": self.backwards,
            "places": [[name, address, count] for (address, count), name in self.places.items()],
            "calls": self.calls,
            "parameter": size(parameters),
            "buffer": size(buffers),
            "gradient": size(p.grad for p in parameters),
            "optimizer_state": size(tensors_of([list(o.state.values()) for o in self.optimizers])),
        }
        print(json.dumps(told | more), flush=True)

# SPDX-License-Identifier: MIT
"""Training loops that keep more with each step, each in its own way: planted.py KIND STEPS

A line that ends with a comment `# planted: KIND` is the one to be named. The last line printed is a JSON object with
the bytes that one step leaves.
"""

import copy
import ctypes
import gc
import json
import random
import sys

import torch
from torch import nn
from torch.nn import functional

KIND, STEPS = sys.argv[1], int(sys.argv[2])
BATCH = 256
told = {}
kept = []


def network():
    return nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512), nn.Tanh(), nn.Linear(512, 16)).cuda()


def train(model, each_step=lambda step, rows: None, steps=STEPS):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        rows = torch.randn(BATCH, 512, device="cuda")
        loss = model(rows).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        each_step(step, rows)


def losses():
    """A loss for each element is kept for a plot: a result of autograd, one each step."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        predicted = model[:-1](torch.randn(BATCH, 512, device="cuda"))
        each = functional.mse_loss(predicted, torch.zeros_like(predicted), reduction="none")  # planted: losses
        each.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(each)
    told["bytes_per_step"] = each.untyped_storage().nbytes()


def graphs():
    """What an evaluation has computed is kept, with autograd on: all that its forward saved for a backward."""
    saved = {}

    def pack(tensor):
        if tensor.untyped_storage().data_ptr() not in weights:
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    def keep(step, rows):
        saved.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            other = torch.randn(BATCH, 512, device="cuda")
            score = model(other).square().mean()  # planted: graphs
        kept.append(score)
        saved[score.untyped_storage().data_ptr()] = 512
        told["bytes_per_step"] = sum(saved.values())

    model = network()
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    train(model, keep)


def history():
    """Detached copies in a list of a function: it is let go when the function returns."""
    copies = []

    def keep(step, rows):
        copies.append(rows[:64].clone())  # planted: history
        told["bytes_per_step"] = copies[-1].untyped_storage().nbytes()

    train(network(), keep)
    copies.clear()  # freed: history


def late():
    """From the 21st step on, after a jump at the tenth."""

    def keep(step, rows):
        if step == 9:
            kept.append(torch.empty(1 << 22, device="cuda"))
        if step >= 20:
            kept.append(torch.ones(32768, device="cuda"))  # planted: late
            told["bytes_per_step"] = kept[-1].untyped_storage().nbytes()

    train(network(), keep)


def shapes():
    """A mask for each length that comes by: lengths never repeat."""
    masks = {}

    def keep(step, rows):
        length = 128 + 8 * step
        if length not in masks:
            masks[length] = torch.ones(length, length, device="cuda").tril()  # planted: shapes
        told["bytes"] = sum(mask.untyped_storage().nbytes() for mask in masks.values())

    train(network(), keep)


def sequence():
    """Keys and values of all steps so far: as many tensors, each time longer."""
    cache = {"k": torch.zeros(4, 8, 0, 64, device="cuda"), "v": torch.zeros(4, 8, 0, 64, device="cuda")}

    def keep(step, rows):
        fresh = torch.randn(4, 8, 16, 64, device="cuda")
        for name in cache:
            cache[name] = torch.cat([cache[name], fresh], dim=2)  # planted: sequence
        told["bytes_per_step"] = 2 * 4 * 8 * 16 * 64 * 4

    train(network(), keep)
    kept.append(cache)


def bank():
    """All results so far are put together, while batches get longer, too: in each step more comes on."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    bank = torch.zeros(0, 512, device="cuda")
    for step in range(STEPS):
        hidden = model[:3](torch.randn(64 + 16 * step, 512, device="cuda"))
        bank = torch.cat([bank, hidden.detach()])  # planted: bank
        model[3:](hidden).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    told["bytes"] = bank.untyped_storage().nbytes()


def everything():
    """Each step goes through all data so far: the batch itself is what grows."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rows = torch.zeros(0, 512, device="cuda")
    for _ in range(STEPS):
        fresh = torch.randn(BATCH, 512, device="cuda")
        rows = torch.cat([rows, fresh])  # planted: everything
        model(rows).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    told["bytes_per_step"] = fresh.untyped_storage().nbytes()


def hook():
    """A forward hook copies what its layer returns."""

    def remember(module, inputs, output):
        kept.append(output.detach().clone())  # planted: hook
        told["bytes_per_step"] = kept[-1].untyped_storage().nbytes()

    model = network()
    model[2].register_forward_hook(remember)
    train(model)


def gradient_hook():
    """A hook of a parameter copies its gradient in backward."""

    def remember(gradient):
        kept.append(gradient.clone())  # planted: gradient_hook
        told["bytes_per_step"] = kept[-1].untyped_storage().nbytes()

    model = network()
    model[4].weight.register_hook(remember)
    train(model)


def outputs_of_hooked(model, hooked):
    """A forward hook keeps what a module returns as it is: nothing of the hook's allocates."""

    def remember(module, inputs, output):
        kept.append(output)
        told["bytes_per_step"] = output.untyped_storage().nbytes()

    hooked.register_forward_hook(remember)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        rows = torch.randn(BATCH, 512, device="cuda")
        model(rows).square().mean().backward()  # planted: kept_outputs # planted: root_outputs
        optimizer.step()
        optimizer.zero_grad()


def kept_outputs():
    model = network()
    outputs_of_hooked(model, model[2])


def root_outputs():
    """The hook is the whole model's: every layer runs within its call, and the last one made what is kept."""
    model = network()[:3]
    outputs_of_hooked(model, model)


def every_hook():
    """Each module has a hook that only looks, as some libraries have it; a list keeps what a layer returns."""
    torch.nn.modules.module.register_module_forward_hook(lambda module, inputs, output: None)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        hidden = model[0](torch.randn(BATCH, 512, device="cuda"))  # planted: every_hook
        kept.append(hidden)
        model[1:](hidden).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    told["bytes_per_step"] = hidden.untyped_storage().nbytes()


class Looking(nn.Module):
    """Keeps what it computes for a plot, in its own forward: no hook."""

    def forward(self, x):
        kept.append(x.detach() + 1)  # planted: inside
        told["bytes_per_step"] = kept[-1].untyped_storage().nbytes()
        return x


def inside():
    train(nn.Sequential(nn.Linear(512, 512), Looking(), network()).cuda())


def full_hook():
    """A hook of a layer's backward copies the gradient of what it returned."""

    def remember(module, of_input, of_output):
        kept.append(of_output[0].clone())  # planted: full_hook
        told["bytes_per_step"] = kept[-1].untyped_storage().nbytes()

    model = network()
    model[2].register_full_backward_hook(remember)
    train(model)


class Doubled(torch.autograd.Function):
    """Its context holds on to its own result, which holds on to the context."""

    @staticmethod
    def forward(ctx, x):
        y = x * 2  # planted: context
        ctx.result = y
        told["bytes_per_step"] = y.untyped_storage().nbytes()
        return y

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


class Doubling(nn.Module):
    def forward(self, x):
        return Doubled.apply(x)


def context():
    """Only the collector of cycles would free them, and it is off, as some loops have it for speed."""
    gc.disable()
    train(nn.Sequential(nn.Linear(512, 512), Doubling(), network()).cuda())


def driver():
    """Memory straight from the driver, by the program itself."""
    address = ctypes.c_void_p()

    def keep(step, rows):
        assert ctypes.CDLL(None).cudaMalloc(ctypes.byref(address), ctypes.c_size_t(4 << 20)) == 0  # planted: driver
        told["bytes_per_step"] = 4 << 20

    train(network(), keep)


def library():
    """A handle of cuBLAS each step, which works once and is never destroyed: the library's own memory."""
    cublas, one = ctypes.CDLL(None), ctypes.c_float(1)

    def keep(step, rows):
        handle = ctypes.c_void_p()
        assert cublas.cublasCreate_v2(ctypes.byref(handle)) == 0
        x = ctypes.c_void_p(rows.data_ptr())
        assert cublas.cublasSscal_v2(handle, 8, ctypes.byref(one), x, 1) == 0  # planted: library
        told["bytes_per_step"] = 32 << 20  # the workspace that cuBLAS documents for this GPU

    train(network(), keep)


def accelerating():
    """Each step keeps more than the one before."""

    def keep(step, rows):
        kept.append(torch.ones(65536 * (step + 1), device="cuda"))  # planted: accelerating
        told["bytes"] = sum(tensor.untyped_storage().nbytes() for tensor in kept)

    train(network(), keep)


def pinned():
    """Page-locked memory of the host, which the GPU copies from: one buffer more each step."""

    def keep(step, rows):
        kept.append(torch.empty(1 << 18, pin_memory=True))  # planted: pinned
        told["bytes_per_step"] = kept[-1].untyped_storage().nbytes()

    train(network(), keep)


def varying():
    """From the 16th step on something stays of batches of very different sizes, copied by a library."""
    random.seed(5)
    model = network()

    def keep(step, rows):
        if step >= 15:
            kept.append(copy.deepcopy(rows[: random.choice([16, 32, 64, 256])].clone()))  # planted: varying
        told["bytes"] = sum(rows.untyped_storage().nbytes() for rows in kept)

    train(model, keep)


def generation():
    """No training: tokens one after another, and a cache of keys and values as long as they are."""
    kept[:] = torch.randn(8, 8, 1, 64, device="cuda"), torch.randn(8, 8, 1, 64, device="cuda")
    with torch.no_grad():
        for _ in range(STEPS):
            new = torch.randn(2, 8, 8, 1, 64, device="cuda")
            kept[:] = [torch.cat([old, part], 2) for old, part in zip(kept, new)]  # planted: generation
            functional.scaled_dot_product_attention(new[0], *kept)


def serving():
    """No training: requests of random lengths, and what each has computed is kept."""
    model = network()
    with torch.no_grad():
        for _ in range(STEPS):
            answer = model(torch.randn(random.randrange(16, 256), 512, device="cuda"))
            kept.append(answer.repeat(64, 1))  # planted: serving
    told["bytes"] = sum(one.untyped_storage().nbytes() for one in kept)


globals()[KIND]()
print(json.dumps(told))

# SPDX-License-Identifier: MIT
"""Small jobs that train in many ways, each of which tells what its memory was for: train.py JOB"""

import copy
import os
import subprocess
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from truth import Truth, nr_allocations

DEVICE = "cuda"
truth = Truth()


class Mixer(nn.Module):
    """Attention over a window and a gated feed-forward part, as many projects have written it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.pre, self.post = nn.RMSNorm(width), nn.LayerNorm(width)
        self.in_proj = nn.Linear(width, 3 * width, bias=False)
        self.out_proj = nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, 3 * width), nn.Linear(width, 3 * width)
        self.down = nn.Linear(3 * width, width)

    def forward(self, h):
        b, t, w = h.shape
        q, k, v = self.in_proj(self.pre(h)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out_proj(mixed.transpose(1, 2).reshape(b, t, w))
        n = self.post(h)
        return h + self.down(functional.silu(self.gate(n)) * self.up(n))


class Language(nn.Module):
    def __init__(self, vocabulary=4096, width=512, depth=6, recompute=False):
        super().__init__()
        self.recompute = recompute
        self.words = nn.Embedding(vocabulary, width)
        self.where = nn.Parameter(torch.zeros(320, width))
        self.stack = nn.ModuleList([Mixer(width, 8) for _ in range(depth)])
        self.last = nn.LayerNorm(width)
        self.out = nn.Linear(width, vocabulary)
        self.register_buffer("seen", torch.zeros(vocabulary))

    def forward(self, ids):
        h = self.words(ids) + self.where[: ids.shape[1]]
        for part in self.stack:
            h = checkpoint(part, h, use_reentrant=False) if self.recompute else part(h)
        return self.out(self.last(h))


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(inplace=True),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside),
        )
        self.skip = nn.Conv2d(inside, outside, 1, stride)

    def forward(self, image):
        return functional.relu(self.body(image) + self.skip(image))


def convolutional():
    widths = [32, 64, 128, 256]
    parts = [nn.Conv2d(3, 32, 7, 2, 3)] + [Residual(a, b, 2) for a, b in zip(widths, widths[1:])]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 1000))


def text(batch=8, length=256):
    ids = torch.randint(0, 4096, (batch, length + 1), device=DEVICE)
    truth.input(ids)
    return ids


def word_loss(model, ids):
    predicted = model(ids[:, :-1])
    return functional.cross_entropy(predicted.flatten(0, 1), ids[:, 1:].flatten())


def ask_for_names():
    """A census now, while the model has its name: on a slow machine the one of its making may be the only one there is time for."""
    command = os.environ.get("TESTED_COMMAND")
    if command:
        outside = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        subprocess.run([command, "names", str(os.getpid())], env=outside, stdout=subprocess.DEVNULL, check=True)


def note(model, *optimizers):
    truth.model(model)
    for optimizer in optimizers:
        truth.optimizer(optimizer)
    ask_for_names()


def sgd_momentum():
    """The plainest loop: gradients are dropped at its beginning."""
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.Tanh(), nn.Linear(4096, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    note(model, optimizer)
    for _ in range(4):
        optimizer.zero_grad()
        rows, wanted = torch.rand(2048, 1024, device=DEVICE), torch.randint(0, 10, (2048,), device=DEVICE)
        truth.input(rows, wanted)
        functional.cross_entropy(model(rows), wanted).backward()
        optimizer.step()


def adamw(**how):
    with torch.device(DEVICE):
        model = Language()
    optimizer = torch.optim.AdamW(model.parameters(), **how)
    note(model, optimizer)
    for i in range(4):
        word_loss(model, text()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if i < 3:
            optimizer.zero_grad()


def accumulate():
    """Four batches to a step, gradients dropped; the batch decides the peak."""
    model = Language().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    note(model, optimizer)
    for _ in range(3):
        for _ in range(4):
            (word_loss(model, text()) / 4).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def keep_gradients():
    """Gradients are zeroed in place, and an average of the weights is kept by hand."""
    model = convolutional().to(DEVICE, memory_format=torch.channels_last)
    average = [p.detach().clone() for p in model.parameters()]
    truth.note("parameter", average)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    note(model, optimizer)
    for _ in range(4):
        images = torch.randn(32, 3, 160, 160, device=DEVICE).to(memory_format=torch.channels_last)
        wanted = torch.randint(0, 1000, (32,), device=DEVICE)
        truth.input(images, wanted)
        optimizer.zero_grad(set_to_none=False)
        functional.cross_entropy(model(images), wanted).backward()
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(average, list(model.parameters()), 0.1)
        truth.note("parameter", average)


def recompute():
    model = Language(depth=8, recompute=True).to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())
    note(model, optimizer)
    for _ in range(3):
        loss = word_loss(model, text(16))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def mixed():
    """fp16 autocast with a scaler, gradients unscaled and clipped, evaluation between the steps."""
    model = Language(depth=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    scaler = torch.amp.GradScaler()
    note(model, optimizer)
    for i in range(4):
        ids = text(16)
        with torch.autocast("cuda", torch.float16):
            loss = word_loss(model, ids)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if i % 2:
            model.eval()
            with torch.no_grad():
                word_loss(model, text(4))
            model.train()


def in_backward():
    """Each parameter is updated as soon as its gradient is there."""
    model = Language(depth=4).cuda()
    optimizers = {p: torch.optim.Adam([p]) for p in model.parameters()}
    note(model, *optimizers.values())

    def apply(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(apply)
    for _ in range(3):
        word_loss(model, text()).backward()


def no_modules():
    """No nn.Module, no optimizer, data that stays on the device."""
    sizes = [(2048, 2048)] * 4 + [(2048, 16)]
    weights = [(torch.randn(*size, device=DEVICE) / 45).requires_grad_() for size in sizes]
    rows = torch.randn(4096, 2048, device=DEVICE)
    wanted = torch.randn(4096, 16, device=DEVICE)
    truth.note("parameter", weights)
    truth.note("input", rows, wanted)
    for w in weights:
        w.register_post_accumulate_grad_hook(lambda p: truth.note("gradient", p.grad))
    for _ in range(4):
        h = rows
        for w in weights[:-1]:
            h = (h @ w).relu()
        error = (h @ weights[-1] - wanted).square().mean()
        error.backward()
        with torch.no_grad():
            for w in weights:
                w.sub_(w.grad, alpha=0.01)
                w.grad = None


def adversarial():
    """Two networks in turn; the gradients of one are not wanted while the other learns."""
    generator = nn.Sequential(nn.Linear(128, 2048), nn.GELU(), nn.Linear(2048, 4096)).cuda()
    judge = nn.Sequential(nn.Linear(4096, 2048), nn.LeakyReLU(0.2), nn.Linear(2048, 1)).cuda()
    first, second = torch.optim.Adam(generator.parameters()), torch.optim.RMSprop(judge.parameters())
    note(generator, first)
    truth.model(judge, inputs=False)  # what the other network makes is none
    truth.optimizer(second)
    for _ in range(3):
        real, noise = torch.randn(1024, 4096, device=DEVICE), torch.randn(1024, 128, device=DEVICE)
        truth.input(real, noise)
        second.zero_grad()
        (judge(generator(noise).detach()).mean() - judge(real).mean()).backward()
        second.step()
        first.zero_grad()
        (-judge(generator(noise)).mean()).backward()
        first.step()


def two_stages():
    """One optimizer after the other, each for some steps."""
    model = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 10)).cuda()
    note(model)
    for optimizer in torch.optim.Adam(model.parameters()), torch.optim.RMSprop(model.parameters()):
        truth.optimizer(optimizer)

        def step():
            model(torch.randn(256, 512, device=DEVICE)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        if isinstance(optimizer, torch.optim.Adam):
            for _ in range(3):
                step()
        else:
            for _ in range(4):
                step()


def master_weights():
    """The model in bfloat16; its optimizer, whose state is there from the beginning, works on copies in float32."""
    model = Language(depth=4).to(DEVICE, torch.bfloat16)
    copies = [p.detach().clone().float().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.Adagrad(copies)
    note(model, optimizer)
    note(nn.ParameterList(copies))
    truth.note("parameter", copies)
    truth.note("optimizer_state", list(optimizer.state.values()))
    for _ in range(4):
        word_loss(model, text()).backward()
        for copy, p in zip(copies, model.parameters()):
            copy.grad, p.grad = p.grad.float(), None
            truth.note("gradient", copy.grad)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_copy_(list(model.parameters()), copies)


class Momentum:
    """An optimizer of the program's own."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.average = [torch.zeros_like(p) for p in self.parameters]
        truth.note("optimizer_state", self.average)

    @torch.no_grad()
    def step(self):
        for p, average in zip(self.parameters, self.average):
            average.mul_(0.9).add_(p.grad)
            p.sub_(0.1 * average)
            p.grad = None


def own_optimizer():
    """Besides, each step stores two more batches on the device."""
    model = Language(depth=4).to(DEVICE)
    optimizer = Momentum(model.parameters())
    note(model)
    seen = []
    for _ in range(8):
        for _ in range(2):
            seen.append(torch.rand(8, 256, 512).to(DEVICE))
        truth.input(*seen)
        out = model.last(model.stack[0](seen[-1]))
        (out.square().mean() + word_loss(model, text())).backward()
        optimizer.step()


def twice():
    """Backward goes through the same graph twice in a step; the last batch is still there at the end."""
    model = convolutional().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    note(model, optimizer)
    for _ in range(4):
        images, wanted = torch.randn(64, 3, 64, 64, device=DEVICE), torch.randint(0, 1000, (64,), device=DEVICE)
        truth.input(images, wanted)
        loss = functional.cross_entropy(model(images), wanted)
        loss.backward(retain_graph=True)
        (loss / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
    return images


def interrupted():
    """The first batch does not fit; evaluations keep their graphs, and something is drawn between two networks."""
    first = nn.Sequential(nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 4096), nn.GELU()).cuda()
    second = nn.Sequential(nn.Linear(4096, 1024), nn.GELU(), nn.Linear(1024, 10)).cuda()
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.Adam(parameters)
    note(first, optimizer)
    truth.model(second, inputs=False)

    def step(rows):
        batch = torch.empty(rows, 1024, device=DEVICE)
        truth.input(batch)
        hidden = first(batch)
        with torch.no_grad():
            noise = torch.randn_like(hidden)
        second(hidden * noise).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    try:
        step(1 << 22)
    except torch.OutOfMemoryError:
        step(4096)
    for _ in range(3):
        step(4096)
        kept = first(torch.empty(512, 1024, device=DEVICE))
    del kept


def functional_steps():
    """Each step makes new weights, by gradients that could be differentiated once more."""
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(6)], nn.Linear(1024, 10)).to(DEVICE)
    weights = {n: p.detach() for n, p in model.named_parameters()}
    truth.note("parameter", weights)
    for _ in range(4):
        rows = torch.rand(640, 1024, device=DEVICE)
        truth.input(rows)
        weights = {n: w.requires_grad_() for n, w in weights.items()}
        loss = torch.func.functional_call(model, weights, (rows,)).square().mean()
        truth.backwards.append(nr_allocations())
        slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        truth.note("gradient", slopes)
        with torch.no_grad():
            weights = {n: w - 0.1 * slope for (n, w), slope in zip(weights.items(), slopes)}
        truth.note("parameter", weights)
        del loss, slopes


def penalty():
    """Three steps of a judge to one of the network it judges; its own slope is a part of the judge's loss."""
    generator = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 3072), nn.Tanh()).cuda()
    judge = nn.Sequential(nn.Linear(3072, 1024), nn.LeakyReLU(0.2), nn.Linear(1024, 512), nn.Tanh(), nn.Linear(512, 1)).cuda()
    first, second = torch.optim.Adam(generator.parameters()), torch.optim.Adam(judge.parameters())
    note(generator, first)
    truth.model(judge, inputs=False)
    truth.optimizer(second)
    for _ in range(3):
        for _ in range(3):
            real, noise = torch.rand(384, 3072, device=DEVICE), torch.randn(384, 64, device=DEVICE)
            with torch.no_grad():
                made = generator(noise)
            loss = judge(made).mean() - judge(real).mean()
            between = (0.3 * real + 0.7 * made).requires_grad_()
            truth.input(real, noise, between)
            scores = judge(between).sum()
            truth.backwards.append(nr_allocations())
            (slope,) = torch.autograd.grad(scores, between, create_graph=True)
            loss = loss + (slope.norm(2, 1) - 1).square().mean()
            second.zero_grad()
            loss.backward()
            truth.note("gradient", between.grad)
            second.step()
        noise = torch.randn(384, 64, device=DEVICE)
        first.zero_grad()
        (-judge(generator(noise)).mean()).backward()
        first.step()


class Contrast(nn.Module):
    """An encoder, and one that follows it: forward makes the weights of that anew."""

    def __init__(self):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024), nn.ReLU(), nn.Linear(1024, 128))
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", torch.randn(128, 8192))

    def forward(self, rows):
        query = self.query(rows)
        with torch.no_grad():
            for k, q in zip(self.key.parameters(), self.query.parameters()):
                k.data = k.data * 0.99 + q.data * 0.01
            truth.note("parameter", list(self.key.parameters()))
            key = self.key(rows)
        return torch.cat([(query * key).sum(1, keepdim=True), query @ self.queue], 1)


def momentum_encoder():
    model = Contrast().to(DEVICE)
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.1, momentum=0.9)
    note(model, optimizer)
    for _ in range(4):
        rows, wanted = torch.rand(512, 1024, device=DEVICE), torch.zeros(512, dtype=torch.long, device=DEVICE)
        truth.input(wanted)
        optimizer.zero_grad()
        functional.cross_entropy(model(rows), wanted).backward()
        optimizer.step()


def clipped():
    """Gradients are clipped after each of the four batches of a step."""
    model = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    note(model, optimizer)
    for i in range(12):
        model(torch.randn(256, 512, device=DEVICE)).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def evaluations():
    """Three steps of Adam, then four of L-BFGS, which evaluates the loss several times in each, and looks at the model between."""
    model = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1)).cuda()
    rows = torch.rand(256, 512, device=DEVICE)
    note(model)

    def evaluate():
        optimizer.zero_grad()
        loss = model(rows).square().mean()
        loss.backward()
        return loss

    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        evaluate()
        optimizer.step()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    for i in range(4):
        optimizer.step(evaluate)
        if i == 1:
            with torch.no_grad():
                model(rows)


def averaged():
    """
    Weights are averaged once an epoch, after updates that allocate nothing; an evaluation then computes a loss of all
    the outputs that it has collected.
    """
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 2048)).cuda()
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    note(model, optimizer)
    truth.model(average)
    truth.parameters(average)

    def batch(rows):
        data, wanted = torch.rand(rows, 512, device=DEVICE), torch.randint(0, 2048, (rows,), device=DEVICE)
        truth.input(data, wanted)
        return data, wanted

    for _ in range(3):
        for _ in range(4):
            data, wanted = batch(1024)
            optimizer.zero_grad()
            functional.cross_entropy(model(data), wanted).backward()
            optimizer.step()
        average.update_parameters(model)
        with torch.no_grad():
            batches = [batch(768) for _ in range(4)]
            outputs = torch.cat([average(data) for data, _ in batches])
            functional.cross_entropy(outputs, torch.cat([wanted for _, wanted in batches]))
        del outputs, batches


JOBS = {
    "sgd_momentum": sgd_momentum,
    "adamw_foreach": lambda: adamw(foreach=True),
    "adamw_fused": lambda: adamw(fused=True),
    "adamw_loop": lambda: adamw(foreach=False, amsgrad=True),
    "accumulate": accumulate,
    "keep_gradients": keep_gradients,
    "recompute": recompute,
    "mixed": mixed,
    "in_backward": in_backward,
    "no_modules": no_modules,
    "adversarial": adversarial,
    "twice": twice,
    "master_weights": master_weights,
    "own_optimizer": own_optimizer,
    "two_stages": two_stages,
    "interrupted": interrupted,
    "functional_steps": functional_steps,
    "penalty": penalty,
    "momentum_encoder": momentum_encoder,
    "clipped": clipped,
    "evaluations": evaluations,
    "averaged": averaged,
}

with truth.watch():
    last = JOBS[sys.argv[1]]()
truth.tell()

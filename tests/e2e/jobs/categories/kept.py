# SPDX-License-Identifier: MIT
"""Small jobs that keep more from step to step than a model and its optimizer, or less: kept.py JOB"""

import contextlib
import copy
import sys
import types

import torch
from torch import nn
from torch.nn import functional

from truth import Truth, nr_allocations

truth = Truth()


class Bare:
    """Tensors of no module, told as those of a model are."""

    def __init__(self, tensors):
        self.tensors = list(tensors)

    def parameters(self):
        return self.tensors

    def buffers(self):
        return []


def statistics():
    """Squared gradients of a recurrent network, whose weights are one flat block, are kept of each step: no data."""
    model = nn.ModuleDict({"rnn": nn.LSTM(128, 256), "out": nn.Linear(256, 64)}).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    truth.model(model["rnn"])
    truth.model(model["out"], inputs=False)
    truth.optimizer(optimizer)
    squares = []
    for _ in range(5):
        rows = torch.randn(64, 128, 128).cuda()
        optimizer.zero_grad()
        model["out"](model["rnn"](rows)[0]).square().mean().backward()
        optimizer.step()
        if len(squares) < 2:
            squares.append(torch.cat([p.grad.flatten() for p in model["rnn"].parameters()]).square())
    return squares


def transitions():
    """States are stored one by one, in front of the update that draws some of them, and after a call of the model."""
    model = nn.Sequential(nn.Linear(16384, 64), nn.ReLU(), nn.Linear(64, 4)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    truth.model(model)
    truth.optimizer(optimizer)
    stored, state = [], torch.randn(16384).cuda()
    truth.input(state)
    for i in range(120):
        with torch.no_grad():
            model(state[None]).argmax(-1)
        state = torch.randn(16384).cuda()
        truth.input(state)
        stored.append(state)
        if i % 20 == 19:
            rows = torch.stack(stored[-16:])
            truth.input(rows)
            loss = model(rows).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def average():
    """An average of the weights that begins with copies of which autograd knows, a set that PyTorch copies, and the best so far."""
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 768), nn.GELU(), nn.Linear(768, 10)).cuda()
    means = [p.clone().detach() for p in model.parameters()]
    again = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    truth.model(model)
    truth.models.append(again)
    truth.parameters(again)
    truth.note("parameter", means)
    truth.optimizer(optimizer)
    for _ in range(5):
        loss = model(torch.randn(512, 512, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mean, p in zip(means, model.parameters()):
                mean.lerp_(p, 0.1)
        again.update_parameters(model)
        best = copy.deepcopy(model.state_dict())
        truth.note("parameter", best)
    truth.models += [Bare(means), Bare(best.values())]
    return best


def ensemble():
    """Eight models as one, by torch.func: their parameters stacked, and given to each call."""
    members = [nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 8)) for _ in range(8)]
    skeleton = copy.deepcopy(members[0]).to("meta")
    stacked, _ = torch.func.stack_module_state([member.cuda() for member in members])
    optimizer = torch.optim.Adam(stacked.values())
    truth.models += [Bare(stacked.values()), *members]
    truth.optimizer(optimizer)
    for _ in range(4):
        rows = torch.randn(512, 256, device="cuda")
        truth.input(rows)
        for model in truth.models:
            truth.parameters(model)
        outputs = torch.func.vmap(lambda p, x: torch.func.functional_call(skeleton, p, (x,)), (0, None))(stacked, rows)
        optimizer.zero_grad()
        truth.backwards.append(nr_allocations())
        outputs.square().mean().backward()
        truth.note("gradient", [p.grad for p in stacked.values()])
        optimizer.step()


def line_search():
    """L-BFGS: directions, and gradients between the evaluations of one step, are no state."""
    model = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1)).cuda()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, history_size=2, line_search_fn="strong_wolfe")
    truth.model(model)
    truth.optimizer(optimizer)
    rows = torch.rand(512, 512, device="cuda")

    def evaluate():
        optimizer.zero_grad()
        loss = model(rows).square().mean()
        loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(evaluate)


def compiled():
    """A model that torch.compile has made one function of; modules have no calls then, and autograd's hooks none to see."""
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.LayerNorm(2048), nn.Linear(2048, 512), nn.Linear(512, 10)).cuda()
    net = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters())
    truth.models.append(model)
    truth.optimizer(optimizer)
    for _ in range(4):
        rows, wanted = torch.rand(1024, 512).cuda(), torch.zeros(1024, dtype=torch.long).cuda()
        truth.input(rows, wanted)
        truth.parameters(model)
        loss = functional.cross_entropy(net(rows), wanted)
        optimizer.zero_grad()
        truth.backwards.append(nr_allocations())
        loss.backward()
        truth.note("gradient", [p.grad for p in model.parameters()])
        optimizer.step()


def by_hand():
    """Momentum without any class: its state is made after the first backward."""
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 768), nn.GELU(), nn.Linear(768, 10)).cuda()
    truth.model(model)
    momentum = {}
    for _ in range(5):
        model(torch.rand(256, 512).cuda()).square().mean().backward()
        for name, p in model.named_parameters():
            if name not in momentum:
                momentum[name] = torch.zeros_like(p.data)
                truth.note("optimizer_state", momentum[name])
            momentum[name].mul_(0.9).add_(p.grad)
            p.data.sub_(momentum[name], alpha=0.1)
            p.grad = None
    truth.optimizers.append(types.SimpleNamespace(state=momentum))
    return momentum


def summed():
    """Squared gradients are summed up beside PyTorch's optimizer, the first from before any step; they are no copies of weights."""
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 768), nn.GELU(), nn.Linear(768, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    truth.model(model)
    truth.optimizer(optimizer)
    squares = [torch.zeros_like(p) for p in model.parameters()]
    importance = {}
    for i in range(5):
        optimizer.zero_grad()
        model(torch.rand(256, 512).cuda()).square().mean().backward()
        if i == 2:
            importance = {name: torch.zeros_like(p, memory_format=torch.preserve_format) for name, p in model.named_parameters()}
        with torch.no_grad():
            for square, p in zip(squares + list(importance.values()), 2 * list(model.parameters())):
                square.addcmul_(p.grad, p.grad)
        truth.note("optimizer_state", squares, importance)
        optimizer.step()
    truth.optimizers.append(types.SimpleNamespace(state={0: squares, 1: importance}))
    return squares, importance


def train_on_row(model, multiple):
    """All gradients are views of one row, of so many elements or a multiple."""
    optimizer = torch.optim.Adam(model.parameters())
    truth.model(model)
    truth.optimizer(optimizer)
    elements = sum(p.numel() for p in model.parameters())
    row, at = torch.zeros((elements + multiple - 1) // multiple * multiple, device="cuda"), 0
    truth.note("gradient", row)
    for p in model.parameters():
        p.grad = row[at : at + p.numel()].view_as(p)
        at += p.numel()
    for _ in range(5):
        row.zero_()
        model(torch.rand(256, 512).cuda()).square().mean().backward()
        optimizer.step()


def flat():
    """Gradients are views of one row."""
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 768), nn.GELU(), nn.Linear(768, 10)).cuda()
    train_on_row(model, 1)


def padded():
    """Gradients are views of one row of a round length, that statistics are no part of."""
    model = nn.Sequential(nn.Linear(512, 1000), nn.BatchNorm1d(1000), nn.GELU(), nn.Linear(1000, 10)).cuda()
    train_on_row(model, 1024)


def sharpness():
    """SAM by hand: a second pass at weights that are moved by a multiple of the gradients. The optimizer works on copies."""
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 768), nn.GELU(), nn.Linear(768, 10)).cuda().bfloat16()
    copies = []
    for p in model.parameters():
        copies.append(torch.empty_like(p, dtype=torch.float32).copy_(p.detach()))
    optimizer = torch.optim.Adam(copies)
    truth.model(model)
    truth.models.append(Bare(copies))
    truth.note("parameter", copies)
    truth.optimizer(optimizer)
    for _ in range(5):
        rows = torch.rand(256, 512, dtype=torch.bfloat16).cuda()
        model(rows).float().square().mean().backward()
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        moves = []
        with torch.no_grad():
            for p in model.parameters():
                move = p.grad * (0.05 / (norm + 1e-12))
                moves.append(move)
                p.add_(move)
        model.zero_grad()
        model(rows).float().square().mean().backward()
        with torch.no_grad():
            for p, move in zip(model.parameters(), moves):
                p.sub_(move)
            for p, copy in zip(model.parameters(), copies):
                if copy.grad is None:
                    copy.grad = torch.empty_like(copy)
                    truth.note("gradient", copy.grad)
                copy.grad.copy_(p.grad)
        model.zero_grad()
        optimizer.step()
        with torch.no_grad():
            for p, copy in zip(model.parameters(), copies):
                p.copy_(copy)
    return moves


def flat_copy():
    """The optimizer works on one row of copies in float32."""
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 768), nn.GELU(), nn.Linear(768, 10)).cuda().bfloat16()
    weights = list(model.parameters())
    row = torch.cat([p.detach().flatten().float() for p in weights]).requires_grad_()
    optimizer = torch.optim.Adam([row])
    truth.model(model)
    truth.models.append(Bare([row]))
    truth.note("parameter", row)
    truth.optimizer(optimizer)
    for _ in range(5):
        model(torch.rand(256, 512, dtype=torch.bfloat16).cuda()).float().square().mean().backward()
        row.grad = torch.cat([p.grad.flatten().float() for p in weights])
        truth.note("gradient", row.grad)
        model.zero_grad()
        optimizer.step()
        with torch.no_grad():
            for p, part in zip(weights, row.split([p.numel() for p in weights])):
                p.copy_(part.view_as(p))
        optimizer.zero_grad()


def wide_sums():
    """Gradients in bfloat16 are summed up in float32 over the batches of a step."""
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 768), nn.GELU(), nn.Linear(768, 10)).cuda().bfloat16()
    copies = nn.ParameterList([p.detach().float() for p in model.parameters()])
    optimizer = torch.optim.AdamW(copies)
    sums = [torch.zeros_like(p, dtype=torch.float32) for p in model.parameters()]
    truth.model(model)
    truth.models.append(Bare(copies))
    truth.note("parameter", list(copies))
    truth.note("gradient", sums)
    truth.optimizer(optimizer)
    for _ in range(4):
        for _ in range(3):
            model(torch.rand(256, 512, dtype=torch.bfloat16).cuda()).float().square().mean().backward()
            for s, p in zip(sums, model.parameters()):
                s.add_(p.grad)
                p.grad = None
        for copy, s in zip(copies, sums):
            copy.grad = s
        optimizer.step()
        with torch.no_grad():
            for p, copy, s in zip(model.parameters(), copies, sums):
                p.copy_(copy)
                s.zero_()


class Preconditioned:
    """An optimizer of the program's own whose state has no parameter's sizes."""

    def __init__(self, parameters):
        self.parameters, self.state = list(parameters), {}

    @torch.no_grad()
    def step(self):
        for p in self.parameters:
            if p not in self.state:
                self.state[p] = [1e-4 * torch.eye(n, device=p.device) for n in p.shape]
                truth.note("optimizer_state", self.state[p])
            left, right = self.state[p]
            left.add_(p.grad @ p.grad.T)
            right.add_(p.grad.T @ p.grad)
            p.sub_(left @ p.grad @ right, alpha=0.1)
            p.grad = None


def preconditioned():
    model = nn.Sequential(nn.Linear(512, 768, bias=False), nn.Tanh(), nn.Linear(768, 640, bias=False)).cuda()
    optimizer = Preconditioned(model.parameters())
    truth.model(model)
    truth.optimizers.append(optimizer)
    for _ in range(5):
        model(torch.rand(256, 512).cuda()).square().mean().backward()
        optimizer.step()


def hooked():
    """Hooks keep what they compute of gradients, of the latest pass; one gives back another gradient in place of its own."""
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 768), nn.GELU(), nn.Linear(768, 512)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    truth.model(model)
    truth.optimizer(optimizer)
    seen = {}

    def keep(key):
        def hook(gradient):
            seen[key] = gradient.abs()
            truth.note("activation", seen[key])

        return hook

    def keep_output(module, _, gradients):
        seen[module] = gradients[0].square()
        truth.note("activation", seen[module])

    for p in model[0].parameters():
        p.register_hook(keep(p))
    model[2].register_full_backward_hook(keep_output)
    model[4].weight.register_hook(lambda gradient: gradient.clamp(-1, 1))
    for _ in range(5):
        model(torch.rand(768, 512).cuda()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return seen


def regularized():
    """In every other step the judge is differentiated by a copy of the data, too, that stays until the next one."""
    judge = nn.Sequential(nn.Linear(768, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1)).cuda()
    optimizer = torch.optim.Adam(judge.parameters())
    truth.model(judge)
    truth.optimizer(optimizer)
    for i in range(6):
        rows = torch.rand(256, 768).cuda()
        loss = functional.softplus(-judge(rows)).mean()
        if i % 2 == 0:
            given = rows.clone().requires_grad_()
            truth.input(given)
            scores = judge(given).sum()
            truth.backwards.append(nr_allocations())
            (slope,) = torch.autograd.grad(scores, given, create_graph=True)
            loss = loss + slope.square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        truth.note("gradient", given.grad)
        optimizer.step()
    given.grad = None
    return given


JOBS = {job.__name__: job
        for job in (statistics, transitions, average, ensemble, line_search, compiled, by_hand, summed, flat, flat_copy,
                    wide_sums, preconditioned, hooked, regularized, padded, sharpness)}
UNSEEN = ("ensemble", "compiled")  # what they save is not a tensor that hooks could look at

with contextlib.nullcontext() if sys.argv[1] in UNSEEN else truth.watch():
    last = JOBS[sys.argv[1]]()
truth.tell()

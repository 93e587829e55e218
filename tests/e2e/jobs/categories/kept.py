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
    """States are stored one by one, in front of the update that draws some of them, and behind a call of the model."""
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
    """Momentum without any class: its state is made behind the first backward."""
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


JOBS = {job.__name__: job
        for job in (statistics, transitions, average, ensemble, line_search, compiled, by_hand)}
UNSEEN = ("ensemble", "compiled")  # what they save is not a tensor that hooks could look at

with contextlib.nullcontext() if sys.argv[1] in UNSEEN else truth.watch():
    last = JOBS[sys.argv[1]]()
truth.tell()

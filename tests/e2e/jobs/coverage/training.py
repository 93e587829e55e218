# SPDX-License-Identifier: MIT
"""How training loops spare memory or time: mixed precision, recomputation, offload to the host, streams."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from parts import part, print_ledger

cuda = torch.device("cuda")


def network(width=512, depth=6):
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth))).to(cuda)


@part
def mixed_precision():
    net, scaler = network(), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cuda", dtype=dtype):
            loss = net(torch.randn(256, 512, device=cuda)).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@part
def optimizers():
    for kind in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "NAdam", "Adafactor", "LBFGS"):
        net = network(128, 2)
        optimizer = getattr(torch.optim, kind)(net.parameters())

        def closure():
            optimizer.zero_grad()
            loss = net(torch.randn(32, 128, device=cuda)).sum()
            loss.backward()
            return loss

        optimizer.step(closure)


@part
def activation_checkpointing():
    for reentrant in (True, False):
        net = network()
        x = torch.randn(1024, 512, device=cuda, requires_grad=True)
        y = x
        for block in net:
            y = checkpoint(block, y, use_reentrant=reentrant)
        y.sum().backward()
        checkpoint_sequential(net, 3, x, use_reentrant=reentrant).sum().backward()


@part
def activations_on_the_host():
    net = network()
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = net(torch.randn(1024, 512, device=cuda, requires_grad=True))
    y.sum().backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.to("cpu"), lambda t: t.to(cuda)):
        y = net(torch.randn(64, 512, device=cuda, requires_grad=True))
    y.sum().backward()


@part
def optimizer_on_the_host():
    net = network()
    host = [p.detach().cpu().pin_memory().requires_grad_() for p in net.parameters()]
    optimizer = torch.optim.AdamW(host)
    for _ in range(2):
        net(torch.randn(256, 512, device=cuda)).sum().backward()
        for there, here in zip(host, net.parameters()):
            there.grad = torch.empty_like(there, pin_memory=True).copy_(here.grad, non_blocking=True)
            here.grad = None
        torch.cuda.synchronize()
        optimizer.step()
        with torch.no_grad():
            for there, here in zip(host, net.parameters()):
                here.copy_(there, non_blocking=True)
    net.to("cpu")


@part
def streams():
    main, side = torch.cuda.current_stream(), torch.cuda.Stream(priority=-1)
    weight = torch.randn(512, 512, device=cuda, requires_grad=True)
    for _ in range(3):
        x = torch.randn(256, 512, device=cuda)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            y = x @ weight
            y.record_stream(main)
            x.record_stream(side)
            event = side.record_event()
        del x
        event.wait(main)
        y.sum().backward()
    main.wait_stream(side)
    external = torch.cuda.ExternalStream(side.cuda_stream)
    with torch.cuda.stream(external):
        torch.ones(1000, device=cuda)


@part
def event_timing():
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.randn(1000, 1000, device=cuda).relu()
    end.record()
    torch.cuda.synchronize()
    assert end.query() and start.elapsed_time(end) > 0


@part
def functional_transforms():
    net = network(64, 2)
    weights = dict(net.named_parameters())
    x = torch.randn(16, 64, device=cuda)

    def loss(w, row):
        return torch.func.functional_call(net, w, (row,)).sum()

    torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, x)
    torch.func.jacrev(lambda row: net(row))(x[0])
    torch.func.jvp(net, (x,), (x,))


print_ledger()

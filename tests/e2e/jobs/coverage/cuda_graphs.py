# SPDX-License-Identifier: MIT
"""CUDA graphs: a whole training step captured and replayed, graphed callables, graphs that share a pool."""

import torch
from torch import nn

from parts import part, print_ledger

cuda = torch.device("cuda")


def network():
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 256)).to(cuda)


@part
def capture_and_replay():
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(128, 256, device=cuda)

    def step():
        optimizer.zero_grad(set_to_none=True)
        net(x).square().mean().backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(5):
        x.copy_(torch.randn(128, 256))
        graph.replay()


@part
def graphed_callables():
    net = torch.cuda.make_graphed_callables(network(), (torch.randn(64, 256, device=cuda),))
    for _ in range(3):
        net(torch.randn(64, 256, device=cuda)).sum().backward()


@part
def shared_pool():
    x = torch.zeros(1024, 1024, device=cuda)
    graphs, pool = [torch.cuda.CUDAGraph() for _ in range(3)], torch.cuda.graph_pool_handle()
    for graph in graphs:
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            y = x @ x
            del y
    for graph in graphs:
        graph.replay()
        graph.reset()


@part
def what_a_capture_forbids():
    def wait_for_event():
        event = torch.cuda.Event()
        event.record()
        event.synchronize()

    waits = (
        lambda: torch.ones(8, device=cuda).sum().item(),
        torch.cuda.synchronize,
        lambda: torch.cuda.current_stream().synchronize(),
        wait_for_event,
    )
    for wait in waits:
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                wait()
        except RuntimeError as error:
            assert "captur" in str(error), error
        else:
            raise SystemExit("a synchronisation was captured")


print_ledger()

# SPDX-License-Identifier: MIT
"""Captures that must not be disturbed: a graph, one that is given up, and one while another thread allocates."""

import threading

import torch

MIB = 1 << 20
torch.ones(1, device="cuda")

x = torch.ones(256, 256, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    (x @ x).sum()
side.synchronize()

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = (x @ x) + torch.empty(16 * MIB, dtype=torch.uint8, device="cuda")[0]
for _ in range(10):
    graph.replay()
torch.cuda.synchronize()
print("a graph was replayed")


def allocate():
    for _ in range(50):
        torch.empty(40 * MIB, dtype=torch.uint8, device="cuda")
    torch.cuda.current_stream().synchronize()


other = torch.cuda.CUDAGraph()
with torch.cuda.graph(other, capture_error_mode="thread_local"):
    z = x @ x
    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
    z = z + 1
other.replay()
torch.cuda.synchronize()
print("another thread allocated in a capture")

try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        w = x @ x
        raise KeyError("given up")
except KeyError as error:
    print("a capture was given up:", error)
kept = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(16)]
torch.cuda.synchronize()
print("and then", len(kept), "tensors")

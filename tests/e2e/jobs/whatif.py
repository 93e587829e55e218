# SPDX-License-Identifier: MIT
"""Jobs whose requests other settings of the allocator serve in other ways; prints what the allocator counted.

usage: whatif.py CASE [--batch N]
"""

import argparse
import os
import random

import torch
from torch import nn
from torch.nn import functional

from ledger import print_ledger

MIB = 1 << 20


class Layer(nn.Module):
    """One of Llama's, small."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 4 * width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm(x)).split(width, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.silu(self.gate(x)) * self.up(x))


class Llama(nn.Module):
    def __init__(self, layers=6, width=1024, heads=16, words=32000):
        super().__init__()
        self.token = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.token(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def train(model, lengths, batch):
    optimizer = torch.optim.AdamW(model.parameters())
    for length in lengths:
        tokens = torch.zeros(batch, length, dtype=torch.long, device="cuda")
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def llama(options):
    """Batches of other lengths each time."""
    with torch.device("cuda"):
        model = Llama()
    lengths = random.Random(7)
    train(model, [lengths.randrange(100, 1500) for _ in range(12)], options.batch)


def streams(options):
    """Two streams at once, which use each other's tensors."""
    side = torch.cuda.Stream()
    random_sizes = random.Random(3)
    kept = []
    for step in range(60):
        shared = torch.empty(random_sizes.randrange(1, 90) * MIB, dtype=torch.uint8, device="cuda")
        with torch.cuda.stream(side):
            copy = shared + 1
            shared.record_stream(side)
            more = torch.empty(random_sizes.randrange(1, 40) * MIB, dtype=torch.uint8, device="cuda")
            kept.append(copy[:1].clone())
        del shared, copy, more
        if step % 20 == 19:
            torch.cuda.empty_cache()
    torch.cuda.synchronize()


def fragment(options):
    """Blocks of all sizes, of which some live long: what is free between them fits nothing."""
    sizes, long_lived = random.Random(11), []
    for step in range(400):
        if step < 200 and sizes.random() < 0.5:
            long_lived.append(torch.empty(sizes.randrange(1, 20) * MIB // 3, dtype=torch.uint8, device="cuda"))
        short = torch.empty(sizes.randrange(20, 40 + step) * MIB, dtype=torch.uint8, device="cuda")
        if sizes.random() < 0.2:
            long_lived.append(torch.empty(sizes.randrange(2, 30) * MIB // 4, dtype=torch.uint8, device="cuda"))
        if len(long_lived) > 20 and sizes.random() < 0.3:
            del long_lived[sizes.randrange(len(long_lived))]
        del short


@torch.no_grad()
def cache(options):
    """Inference whose keys and values grow by concatenation."""
    with torch.device("cuda"):
        model = Llama(layers=4)
    keys = [torch.empty(options.batch, 16, 0, 64, device="cuda") for _ in range(2 * len(model.layers))]
    for step in range(150):
        hidden = model(torch.zeros(options.batch, 1, dtype=torch.long, device="cuda"))
        keys = [torch.cat([old, torch.zeros(options.batch, 16, 8, 64, device="cuda")], dim=2) for old in keys]
        if step == 100:
            torch.cuda.empty_cache()
    del hidden


def graphs(options):
    """Two CUDA graphs in one pool, then one of its own, between eager work."""
    with torch.device("cuda"):
        model = Llama(layers=3)
    pool = torch.cuda.graph_pool_handle()
    captured = []
    for length in (256, 128):
        tokens = torch.zeros(options.batch, length, dtype=torch.long, device="cuda")
        with torch.no_grad():
            model(tokens)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                output = model(tokens)
        captured.append((graph, tokens, output))
    own = torch.cuda.CUDAGraph()
    tokens = torch.zeros(options.batch, 200, dtype=torch.long, device="cuda")
    with torch.no_grad(), torch.cuda.graph(own):
        output = model(tokens)
    for graph, _, _ in captured:
        graph.replay()
    train(model, [300, 200], options.batch)
    del captured, graph, output
    torch.cuda.empty_cache()
    train(model, [400], options.batch)


def pools(options):
    """A memory pool apart, beside the common one."""
    pool = torch.cuda.MemPool()
    kept = [torch.empty(30 * MIB, dtype=torch.uint8, device="cuda") for _ in range(6)]
    del kept[::2]
    with torch.cuda.use_mem_pool(pool):
        apart = [torch.empty(25 * MIB, dtype=torch.uint8, device="cuda") for _ in range(5)]
        del apart[1:3]
        apart.append(torch.empty(18 * MIB, dtype=torch.uint8, device="cuda"))
    kept.append(torch.empty(28 * MIB, dtype=torch.uint8, device="cuda"))
    kept.append(torch.empty(90 * MIB, dtype=torch.uint8, device="cuda"))


def full(options):
    """Nearly all of the GPU, so that the cache has to be emptied; one request fails, and the program goes on."""
    kept = [torch.empty(3 << 30, dtype=torch.uint8, device="cuda") for _ in range(20)]
    del kept[::2]
    kept.append(torch.empty(20 << 30, dtype=torch.uint8, device="cuda"))
    try:
        torch.empty(70 << 30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        kept.append(torch.empty(5 << 30, dtype=torch.uint8, device="cuda"))


def settings(options):
    """It gives its allocator other settings for a while, as servers do, and gives back those that it found."""
    found = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    give = torch._C._accelerator_setAllocatorSettings
    for size in 130, 150, 170:
        torch.empty(size * MIB, dtype=torch.uint8, device="cuda")
    give(",".join(filter(None, [found, "max_split_size_mb:100"])))
    held = [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (110, 120, 40, 125)]
    give(found)
    held += [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (30, 30, 105, 3, 7)]
    del held[:4]
    held += [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (60, 60, 60)]


def absurd(options):
    """A request that no GPU could serve, for which the cache is emptied all the same."""
    cached = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    del cached
    try:
        torch.empty(1 << 47, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        torch.empty(10 * MIB, dtype=torch.uint8, device="cuda")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("--batch", type=int, default=4)
    chosen = parser.parse_args()
    globals()[chosen.case](chosen)
    print_ledger()

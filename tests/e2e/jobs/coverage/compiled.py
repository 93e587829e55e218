# SPDX-License-Identifier: MIT
"""torch.compile, with Inductor and Triton.

usage: compiled.py CACHE [MODE [LAYERS]]    CACHE: folder of the compiler's caches; MODE: as torch.compile takes it
"""

import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("cache")
parser.add_argument("mode", nargs="?", default="default")
parser.add_argument("layers", nargs="?", type=int, default=1)
args = parser.parse_args()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(args.cache, "inductor")
os.environ["TRITON_CACHE_DIR"] = os.path.join(args.cache, "triton")
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import torch  # after the settings, which it reads
from torch import nn
from torch._dynamo.utils import counters

from parts import print_ledger


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


with torch.device("cuda"):
    net = nn.Sequential(*(Block(256) for _ in range(args.layers)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
compiled = torch.compile(net, mode=args.mode)
for _ in range(4):
    compiled(torch.randn(64, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

print_ledger(graphs=counters["stats"]["unique_graphs"], hits=counters["inductor"]["fxgraph_cache_hit"])

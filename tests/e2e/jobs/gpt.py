# SPDX-License-Identifier: MIT
"""GPT-2 small with AdamW, fp16 autocast, GradScaler and scaled_dot_product_attention.

usage: gpt.py [--steps N] [--counter FILE]   FILE: eight bytes of shared memory, see counter.py
"""

import argparse

import torch
from torch import nn
from torch.nn import functional

from counter import Counter
from ledger import print_ledger

LAYERS, HEADS, WIDTH, VOCABULARY, BATCH, CONTEXT = 12, 12, 768, 50304, 16, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--counter")
args = parser.parse_args()
counter = Counter(args.counter)

with torch.device("cuda"):
    model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
scaler = torch.amp.GradScaler("cuda")
# Every module that has run publishes how many allocations the program has made so far.
for module in model.modules() if args.counter else ():
    module.register_forward_hook(lambda *_: counter.publish())

for step in range(args.steps):
    tokens = torch.randint(0, VOCABULARY, (BATCH, CONTEXT + 1), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.view(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
    scaler.scale(loss).backward()
    counter.publish()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    counter.publish()
    if step < 10:
        print(f"step {step}: loss {loss.item():.4f}")

print_ledger()

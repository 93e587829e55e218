# SPDX-License-Identifier: MIT
"""Train a small GPT on its own source code: AdamW, mixed precision with GradScaler, fused attention."""
import argparse
import json
import pathlib

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, context, width, heads, layers):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        return self.head(self.norm(self.blocks(x)))


def batches(text, batch, context, steps):
    for _ in range(steps):
        starts = torch.randint(len(text) - context - 1, (batch,)).tolist()
        window = torch.stack([text[s:s + context + 1] for s in starts])
        yield window[:, :-1], window[:, 1:]


def train(args):
    device = torch.device("cuda")
    text = torch.tensor(list(pathlib.Path(__file__).read_bytes()))
    model = GPT(256, args.context, args.width, args.heads, args.layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scaler = torch.amp.GradScaler("cuda")

    for step, (tokens, targets) in enumerate(batches(text, args.batch, args.context, args.steps), 1):
        tokens, targets = tokens.to(device), targets.to(device)
        with torch.autocast("cuda", dtype=torch.float16):
            logits = model(tokens)
            loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0:
            held, peak = (n / 2**20 for n in (torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()))
            print(f"step {step}: {step * tokens.numel():,} tokens, {held:,.0f} MiB held, peak {peak:,.0f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--stats", action="store_true", help="print torch.cuda.memory_stats() as JSON")
    args = parser.parse_args()

    train(args)
    allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    print(f"peak: {allocated} bytes allocated, {reserved} reserved")
    if args.stats:
        print(json.dumps(torch.cuda.memory_stats()))


if __name__ == "__main__":
    main()

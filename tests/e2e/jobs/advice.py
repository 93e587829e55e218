# SPDX-License-Identifier: MIT
"""A small language model, as it is and with each advice of `vramtrace advise` applied.

usage: advice.py [--layers N] [--width N] [--words N] [--batch N] [--length N] [--steps N] [HABIT ...]

Habits that advice is about: keep-gradients, late-zero, keep-logits, load, clone (with side), ddp, foreach, words-second (as
the loss takes logits), table (made anew at each step's end), momentum. Advice applied: checkpoint, chunks, state8, state16,
momentum8, accumulate, offload, shard, fsdp, host, load-host, drop-table.
What the model has: matrix (attention by hand), side, post (layers that end with their norm), experts (four in each layer,
one after the other), squares (a loss of what it puts out, not over classes), labels (a loss over labels), frozen (layers
but for their norms), autocast.
"""

import argparse
import os
import tempfile
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ledger import print_ledger

HEADS, EXPERTS = 8, 4


def new_expert(width):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        if has("experts"):
            self.experts = nn.ModuleList(new_expert(width) for _ in range(EXPERTS))
        else:
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, width // HEADS).transpose(1, 2)
            for part in self.qkv(x if has("post") else self.norm1(x)).split(width, dim=2)
        )
        y = by_hand(q, k, v) if has("matrix") else functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        if has("post"):
            x = self.norm1(x)
            return self.norm2(x + self.down(functional.gelu(self.up(x))))
        if has("experts"):
            tokens = self.norm2(x).flatten(0, 1)
            mixed = torch.zeros_like(tokens)
            for expert, rows in zip(self.experts, torch.arange(len(tokens), device=x.device).chunk(EXPERTS)):
                mixed = mixed.index_add(0, rows, expert(tokens[rows]))
            return x + mixed.view_as(x)
        side = x
        if has("clone"):
            side = x.clone()
        x = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return x + functional.silu(side) if has("side") else x


def by_hand(q, k, v):
    return torch.softmax(q @ k.transpose(2, 3) / q.shape[3] ** 0.5, dim=3) @ v


class Model(nn.Module):
    def __init__(self, layers, width, words):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if has("checkpoint") else layer(x)
        return self.norm(x) if has("chunks") else self.head(self.norm(x))


def join_ranks():
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ.get("MASTER_PORT", "29571")}
    torch.distributed.init_process_group("nccl")


def of_ranks(model):
    """As it is trained: with the gradients of other ranks, or with their parameters."""
    if has("ddp"):
        join_ranks()
        return nn.parallel.DistributedDataParallel(model)
    if has("fsdp"):
        from torch.distributed.fsdp import fully_shard

        join_ranks()
        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
    return model


def sharded(model):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    join_ranks()
    return ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, fused=True)


def loaded(model):
    """The weights of an earlier run, from a file; they are still there where the caller keeps what this returns."""
    if not has("load") and not has("load-host"):
        return None
    with tempfile.TemporaryFile() as file:
        average = {name: value.clone() for name, value in model.state_dict().items()} if has("averaged") else {}
        torch.save({"model": model.state_dict(), "average": average}, file)
        file.seek(0)
        state = torch.load(file, map_location="cpu" if has("load-host") else "cuda")
    model.load_state_dict(state["model"])
    return state


def in_bfloat16(model):
    from torchao.optim import AdamW8bit

    class InBfloat16(AdamW8bit):
        @staticmethod
        def _subclass_zeros(p, *_):
            return torch.zeros_like(p, dtype=torch.bfloat16)

    return InBfloat16(model.parameters())


def optimizer_of(model):
    if has("state8"):
        from bitsandbytes.optim import AdamW8bit

        return AdamW8bit(model.parameters())
    if has("momentum8"):
        from bitsandbytes.optim import SGD8bit

        return SGD8bit(model.parameters(), 0.1, momentum=0.9)
    if has("momentum"):
        return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, fused=True)
    if has("state16"):
        return in_bfloat16(model)
    if has("offload"):
        from torchao.optim import CPUOffloadOptimizer

        return CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW)
    return sharded(model) if has("shard") else torch.optim.AdamW(model.parameters(), fused=None if has("foreach") else True)


def loss_of(model, tokens, targets):
    """The loss; the logits, too, where they are all computed at once."""
    out = model(tokens)
    if has("squares"):
        return out.square().mean(), out
    if has("labels"):
        return functional.binary_cross_entropy_with_logits(out, torch.rand_like(out)), out
    if has("words-second"):
        return functional.cross_entropy(out.transpose(1, 2), targets), out
    if not has("chunks"):
        return functional.cross_entropy(out.flatten(0, 1), targets.flatten()), out

    def part(hidden, words):
        return functional.cross_entropy(model.head(hidden), words, reduction="sum")

    parts = zip(out.flatten(0, 1).chunk(8), targets.flatten().chunk(8))
    return sum(checkpoint(part, *pair, use_reentrant=False) for pair in parts) / targets.numel(), None


def zero(optimizer):
    optimizer.zero_grad(set_to_none=False) if has("keep-gradients") else optimizer.zero_grad()


def step(model, optimizer, micro):
    tokens = torch.randint(0, args.words, (micro, args.length), device="cuda")
    narrow = torch.autocast("cuda", torch.bfloat16) if has("autocast") else nullcontext()
    with narrow, torch.autograd.graph.save_on_cpu(pin_memory=True) if has("host") else nullcontext():
        loss, logits = loss_of(model, tokens, tokens)
    if has("late-zero"):
        zero(optimizer)
    loss.backward()
    return logits


def main():
    with torch.device("cuda"):
        model = Model(args.layers, args.width, args.words)
    for name, parameter in model.layers.named_parameters() if has("frozen") else ():
        parameter.requires_grad_("norm" in name)
    weights = loaded(model)
    model = of_ranks(model)
    optimizer = optimizer_of(model)
    parts, table = 2 if has("accumulate") else 1, None
    for _ in range(args.steps):
        for part in reversed(range(parts)):
            logits = step(model, optimizer, (args.batch + part) // parts)
            if not has("keep-logits"):
                del logits
        optimizer.step()
        if not has("late-zero"):
            zero(optimizer)
        if has("drop-table"):
            table = None
        if has("table") or has("drop-table"):
            table = torch.rand(1 << 29, device="cuda")


def has(habit):
    return habit in args.habits


parser = argparse.ArgumentParser()
parser.add_argument("habits", nargs="*")
for name, default in {"layers": 6, "width": 512, "words": 1000, "batch": 8, "length": 512, "steps": 3}.items():
    parser.add_argument(f"--{name}", type=int, default=default)
args = parser.parse_args()
main()
print_ledger()
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()  # without it PyTorch's own threads may abort while Python ends

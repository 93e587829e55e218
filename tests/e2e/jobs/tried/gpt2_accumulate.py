# SPDX-License-Identifier: MIT
"""Pre-trains GPT-2 from scratch with gradient accumulation and activation checkpointing."""

import argparse
import random
from types import SimpleNamespace

import torch
from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup


def documents(rng, vocab, batch_size, shortest=96, longest=320):
    while True:
        length = rng.randint(shortest // 8, longest // 8) * 8
        yield torch.randint(0, vocab, (batch_size, length), device="cuda")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--updates", type=int, default=26)
    parser.add_argument("--batch-size", type=int, default=8)
    return parser.parse_args()


def setup(args):
    config = GPT2Config(
        vocab_size=20000, n_embd=384, n_layer=3, n_head=6, n_positions=512, bos_token_id=0, eos_token_id=0
    )
    with torch.device("cuda"):
        model = GPT2LMHeadModel(config)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95))
    schedule = get_linear_schedule_with_warmup(optimizer, 2, args.updates)
    return SimpleNamespace(model=model, optimizer=optimizer, schedule=schedule, losses=[])


def main():
    args = parse()
    run = setup(args)
    data = documents(random.Random(2), 20000, args.batch_size)
    run.model.train()
    for _ in range(args.updates):
        update_loss = 0.0
        for _ in range(args.accumulate):
            ids = next(data)
            loss = run.model(input_ids=ids, labels=ids, use_cache=False).loss / args.accumulate
            loss.backward()
            update_loss += loss.item()
        torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
        run.optimizer.step()
        run.schedule.step()
        run.optimizer.zero_grad(set_to_none=True)
        run.losses.append(update_loss)
    print(len(run.losses), "updates")


if __name__ == "__main__":
    main()

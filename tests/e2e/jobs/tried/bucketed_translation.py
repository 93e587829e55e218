# SPDX-License-Identifier: MIT
"""Trains a small translation model on batches of a fixed number of tokens, sentences bucketed by length."""

import random
from functools import lru_cache

import torch
from torch import nn

TOKENS_PER_BATCH = 4096
BUCKETS = (16, 24, 32, 48, 64, 96, 128)
VOCAB = 6000


@lru_cache(maxsize=len(BUCKETS))
def causal_mask(length):
    return nn.Transformer.generate_square_subsequent_mask(length, device="cuda")


class Translator(nn.Module):
    def __init__(self, dim=256):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.place = nn.Embedding(BUCKETS[-1], dim)
        self.transformer = nn.Transformer(
            dim, nhead=4, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=1024, batch_first=True
        )
        self.out = nn.Linear(dim, VOCAB)

    def tokens(self, ids):
        return self.embed(ids) + self.place.weight[: ids.shape[1]]

    def forward(self, source, target):
        h = self.transformer(self.tokens(source), self.tokens(target), tgt_mask=causal_mask(target.shape[1]))
        return self.out(h)


class Statistics:
    """Mean and deviation of what a layer puts out, the latest only."""

    def __init__(self, **modules):
        self.latest = {}
        self.handles = [m.register_forward_hook(self.hook(name)) for name, m in modules.items()]

    def hook(self, name):
        def record(module, inputs, output):
            self.latest[name] = torch.stack([output.detach().mean(), output.detach().std()])

        return record

    def close(self):
        for handle in self.handles:
            handle.remove()


def main():
    rng = random.Random(21)
    model = Translator().cuda()
    stats = Statistics(encoder=model.transformer.encoder, decoder=model.transformer.decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, betas=(0.9, 0.98))
    for step in range(70):
        length = rng.choice(BUCKETS[: 3 + step // 10])
        rows = TOKENS_PER_BATCH // length
        source = torch.randint(1, VOCAB, (rows, length), device="cuda")
        target = torch.randint(1, VOCAB, (rows, length), device="cuda")
        logits = model(source, target)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    stats.close()
    print(sorted(stats.latest))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""A compiled GPT: attention, embeddings, cross entropy, autocast, AdamW.

usage: compiled_gpt.py CACHE
"""

import os
import sys

os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(sys.argv[1], "inductor")
os.environ["TRITON_CACHE_DIR"] = os.path.join(sys.argv[1], "triton")

import torch  # after the settings, which it reads
from torch import nn
from torch.nn import functional

from ledger import print_ledger

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 8192, 256, 256, 4, 4


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layers = [nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.1, batch_first=True) for _ in range(LAYERS)]
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT, device=tokens.device)
        for layer in self.layers:
            x = layer(x, mask, is_causal=True)
        return self.head(x)


with torch.device("cuda"):
    net = GPT()
optimizer = torch.optim.AdamW(net.parameters())
compiled = torch.compile(net)
for _ in range(3):
    tokens = torch.randint(0, VOCABULARY, (8, CONTEXT + 1), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = compiled(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

print_ledger()

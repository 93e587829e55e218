# SPDX-License-Identifier: MIT
"""A model of the shape of Qwen2.5-1.5B with AdamW: qwen.py BATCH [LENGTH]"""

import sys

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from ledger import print_ledger

batch, length = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 256
torch.set_default_dtype(torch.bfloat16)
config = Qwen2Config(
    hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2,
    vocab_size=151936, tie_word_embeddings=True, use_cache=False,
)
with torch.device("cuda"):
    model = Qwen2ForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for step in range(3):
    tokens = torch.randint(0, config.vocab_size, (batch, length), device="cuda")
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print_ledger()

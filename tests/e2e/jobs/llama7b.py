# SPDX-License-Identifier: MIT
"""Llama-7B from transformers in bf16 with AdamW: random weights, made on the device."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from ledger import print_ledger

BATCH, CONTEXT, STEPS = 2, 1024, 3

torch.set_default_dtype(torch.bfloat16)
config = LlamaConfig()  # its defaults are the 7B model
with torch.device("cuda"):
    model = LlamaForCausalLM(config)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

for step in range(STEPS):
    tokens = torch.randint(0, config.vocab_size, (BATCH, CONTEXT), device="cuda")
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.4f}")

print_ledger(parameters=sum(parameter.numel() for parameter in model.parameters()))

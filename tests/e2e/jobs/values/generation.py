# SPDX-License-Identifier: MIT
"""`generate` of small random models: prints the shapes of what it returns, and of the last one the reads it made."""

import json

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from reads import sizes

SIZES = {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
WAYS = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "top_k": 10},
    "nucleus": {"do_sample": True, "top_p": 0.9},
    "an end that is never met": {"do_sample": False, "eos_token_id": 2},
    "an end that is met at once": {"do_sample": False, "eos_token_id": 0},
}

prompt = torch.tensor([[5, 6, 7, 8], [1, 1, 9, 3]], device="cuda")
mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]], device="cuda")
shapes = {}
for model_class, config in (LlamaForCausalLM, LlamaConfig(intermediate_size=128, **SIZES)), (GPT2LMHeadModel, GPT2Config(**SIZES)):
    with torch.device("cuda"):
        model = model_class(config).eval()
    for way, options in WAYS.items():
        made = model.generate(prompt, attention_mask=mask, max_new_tokens=12, pad_token_id=1, **options)
        shapes[f"{model_class.__name__} {way}"] = made.shape
print(json.dumps({"shapes": shapes, "reads": len(sizes)}))

# SPDX-License-Identifier: MIT
"""transformers' generate() of a small Llama, one of the prompts padded: python generate.py greedy|sample|beams...

Kernels compute no logits, so no end token is ever drawn: the loop must end by the length that was asked for.
"""

import os
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from ledger import print_ledger

BATCH, PROMPT, NEW, VOCABULARY = 2, 16, 12, 4000
WAYS = {
    "greedy": {"do_sample": False},
    "sample": {"do_sample": True, "top_k": 50, "top_p": 0.9},
    "beams": {"num_beams": 3},
}

config = LlamaConfig(
    hidden_size=512,
    intermediate_size=1024,
    num_hidden_layers=2,
    num_attention_heads=8,
    vocab_size=VOCABULARY,
    pad_token_id=VOCABULARY - 1,
    eos_token_id=VOCABULARY - 2,
)
with torch.device("cuda"):
    model = LlamaForCausalLM(config).to(torch.bfloat16).eval()

for way in sys.argv[1:]:
    prompt = torch.randint(0, VOCABULARY - 10, (BATCH, PROMPT))
    prompt[0, : PROMPT // 2] = config.pad_token_id
    prompt = prompt.cuda()
    produced = model.generate(prompt, attention_mask=prompt != config.pad_token_id, max_new_tokens=NEW, **WAYS[way])
    assert torch.equal(produced[:, :PROMPT], prompt)
    # Beams are compared by their scores, which no kernel computes either: that search ends early.
    assert way == "beams" or produced.shape == (BATCH, PROMPT + NEW), produced.shape

print_ledger(pid=os.getpid())

# SPDX-License-Identifier: MIT
"""A Llama of transformers, sharded over all ranks by FSDP2: bf16, AdamW, activation checkpointing, from the meta
device. Each rank writes what PyTorch's allocator counted to LEDGERS/RANK.json.

    torchrun --nproc-per-node N sharded_llama.py LEDGERS 7b|70b
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.append(str(Path(__file__).resolve().parents[1]))
from ledger import COUNTERS

SIZES = {
    "7b": {},  # the defaults of LlamaConfig
    "70b": {
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
    },
}
CONTEXT, STEPS = 4096, 2

ledgers, size = Path(sys.argv[1]), sys.argv[2]
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)

torch.set_default_dtype(torch.bfloat16)
config = LlamaConfig(**SIZES[size])
with torch.device("meta"):
    model = LlamaForCausalLM(config)
model.activation_checkpointing_enable()
for layer in model.model.layers:
    fully_shard(layer)
fully_shard(model)
model.to_empty(device=device)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

for step in range(STEPS):
    tokens = torch.randint(0, config.vocab_size, (1, CONTEXT), device=device)
    model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
torch.cuda.synchronize()
dist.destroy_process_group()

stats = torch.cuda.memory_stats()
memory = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
ledger = {name: stats[name] for name in COUNTERS} | {"parameters": sum(p.numel() for p in model.parameters())}
ledger["host_bytes"] = {name: int(memory[name].split()[0]) << 10 for name in ("Rss", "Pss", "Private_Dirty")}
(ledgers / f"{os.environ['RANK']}.json").write_text(json.dumps(ledger))

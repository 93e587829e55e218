# SPDX-License-Identifier: MIT
"""DeepSpeed's ZeRO in bf16 with torch's Adam: python train_deepspeed.py STAGE, alone or under torchrun."""

import os
import sys

import deepspeed
import torch
from torch import nn

from ledger import print_ledger

WIDTH, BLOCKS, BATCH, STEPS = 1024, 4, 4, 3

torch.cuda.set_device(int(os.environ.setdefault("LOCAL_RANK", "0")))
for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
    os.environ.setdefault(name, value)

config = {
    "train_micro_batch_size_per_gpu": BATCH,
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
    "zero_optimization": {"stage": int(sys.argv[1]), "stage3_param_persistence_threshold": 0},
}
with deepspeed.zero.Init(config_dict_or_path=config, enabled=sys.argv[1] == "3"):
    model = nn.Sequential(
        *(nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(BLOCKS))
    )
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)

for step in range(STEPS):
    loss = engine(torch.randn(BATCH, WIDTH, device="cuda", dtype=torch.bfloat16)).float().square().mean()
    engine.backward(loss)
    engine.step()
    print(f"step {step}: loss {loss.item():.4f}")

torch.distributed.destroy_process_group()  # ends the thread that holds the last collectives' tensors
print_ledger(pid=os.getpid())

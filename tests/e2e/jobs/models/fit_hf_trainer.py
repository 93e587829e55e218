# SPDX-License-Identifier: MIT
"""transformers' Trainer on a small GPT-2: bf16, gradient checkpointing, a DataLoader with a worker.

usage: fit_hf_trainer.py [--lora]   --lora: train peft's LoRA adapters instead of the weights
"""

import os
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from ledger import print_ledger

VOCABULARY, CONTEXT = 8000, 256


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        tokens = torch.randint(0, VOCABULARY, (CONTEXT,))
        return {"input_ids": tokens, "labels": tokens, "attention_mask": torch.ones_like(tokens)}


model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=512, n_head=8, vocab_size=VOCABULARY))
if "--lora" in sys.argv:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(model, LoraConfig(r=8, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True))
    model.enable_input_require_grads()

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=3,
        bf16=True,
        gradient_checkpointing=True,
        dataloader_num_workers=1,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
    )
    few = torch.utils.data.Subset(Tokens(), range(8))
    trainer = Trainer(model, arguments, train_dataset=Tokens(), eval_dataset=few)
    trainer.train()
    print(sorted(trainer.evaluate()))

print_ledger(pid=os.getpid())

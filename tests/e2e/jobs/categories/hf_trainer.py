# SPDX-License-Identifier: MIT
"""transformers' Trainer on a small Llama, which tells what its memory was for: gradients of two batches to a step."""

import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from truth import Truth


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        words = torch.randint(0, 2000, (192,))
        return {"input_ids": words, "labels": words}


truth = Truth()
shape = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 8}
model = LlamaForCausalLM(LlamaConfig(vocab_size=2000, **shape))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, per_device_train_batch_size=8, gradient_accumulation_steps=2, max_steps=3, bf16=True, save_strategy="no",
        logging_steps=1, report_to=[], eval_strategy="steps", eval_steps=2,
    )
    few = torch.utils.data.Subset(Sentences(), range(8))
    trainer = Trainer(model, arguments, train_dataset=Sentences(), eval_dataset=few)
    trainer.create_optimizer()
    truth.model(model)
    truth.optimizer(trainer.optimizer)
    with truth.watch():
        trainer.train()
truth.tell()

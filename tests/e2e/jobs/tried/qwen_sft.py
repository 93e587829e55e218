# SPDX-License-Identifier: MIT
"""Supervised fine-tuning of a small Qwen2 model in bfloat16, with the loss of the answer tokens only."""

import torch
import torch.nn.functional as F
from transformers import Qwen2Config, Qwen2ForCausalLM

IGNORE = -100


class SFTTrainer:
    def __init__(self, model, lr=1e-5):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def compute_loss(self, input_ids, labels):
        logits = self.model(input_ids=input_ids, use_cache=False).logits
        shifted = logits[:, :-1].float()
        return F.cross_entropy(shifted.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORE)

    def step(self, input_ids, labels):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.compute_loss(input_ids, labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def make_batch(batch_size, length, vocab, prompt=64):
    input_ids = torch.randint(0, vocab, (batch_size, length), device="cuda")
    labels = input_ids.clone()
    labels[:, :prompt] = IGNORE
    return input_ids, labels


def main():
    config = Qwen2Config(
        vocab_size=151936,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    with torch.device("cuda"):
        model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    model.train()
    trainer = SFTTrainer(model)
    for _ in range(100):
        trainer.step(*make_batch(4, 1024, config.vocab_size))


if __name__ == "__main__":
    main()

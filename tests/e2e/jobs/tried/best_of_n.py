# SPDX-License-Identifier: MIT
"""Samples 256 candidate answers per prompt from a Llama model, for a reward model to rank later."""

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def build_model():
    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=2048,
        intermediate_size=2048,
        num_hidden_layers=10,
        num_attention_heads=16,
        num_key_value_heads=16,
        max_position_embeddings=4096,
    )
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = LlamaForCausalLM(config)
        torch.set_default_dtype(torch.float32)
    return model.eval()


@torch.inference_mode()
def sample(model, prompt, n, max_new_tokens, temperature=0.9):
    ids = prompt.expand(n, -1)
    past = None
    generated = []
    for _ in range(max_new_tokens):
        out = model(input_ids=ids, past_key_values=past, use_cache=True, logits_to_keep=1)
        past = out.past_key_values
        probs = torch.softmax(out.logits[:, -1].float() / temperature, dim=-1)
        noise = torch.rand_like(probs).clamp_min(1e-9)
        ids = (probs / -noise.log()).argmax(dim=-1, keepdim=True)
        generated.append(ids)
    return torch.cat(generated, dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--candidates", type=int, default=256)
    parser.add_argument("--max-new-tokens", type=int, default=300)
    args = parser.parse_args()

    model = build_model()
    prompt = torch.randint(0, 32000, (1, 48), device="cuda")
    answers = sample(model, prompt, args.candidates, args.max_new_tokens)
    print("sampled", tuple(answers.shape))


if __name__ == "__main__":
    main()

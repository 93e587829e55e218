# SPDX-License-Identifier: MIT
"""Training steps of a transformers model with random weights, by its name: python train_transformers.py mixtral."""

import argparse
import os

import torch
import transformers

from ledger import print_ledger

STEPS, BATCH, VOCABULARY = 2, 4, 4000
TEXT = {
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": VOCABULARY,
}


def tokens(length):
    """Made on the host, as a data loader does."""
    return torch.randint(0, VOCABULARY - 100, (BATCH, length))


def mixtral(options):
    """Mixture of experts: the router decides which expert sees which token."""
    config = transformers.MixtralConfig(**TEXT, num_local_experts=8, num_experts_per_tok=2, output_router_logits=True)
    config._experts_implementation = options.experts

    def batch():
        drawn = tokens(options.context)
        return {"input_ids": drawn, "labels": drawn}

    return transformers.MixtralForCausalLM, config, batch


def vit(_):
    config = transformers.ViTConfig(num_hidden_layers=4, hidden_size=384, num_attention_heads=6, num_labels=10)

    def batch():
        return {"pixel_values": torch.randn(BATCH, 3, 224, 224), "labels": torch.randint(0, 10, (BATCH,))}

    return transformers.ViTForImageClassification, config, batch


def t5(options):
    config = transformers.T5Config(
        d_model=256, d_kv=64, d_ff=1024, num_layers=3, num_heads=4, vocab_size=VOCABULARY, decoder_start_token_id=0
    )

    def batch():
        return {"input_ids": tokens(options.context), "labels": tokens(32)}

    return transformers.T5ForConditionalGeneration, config, batch


def whisper(_):
    config = transformers.WhisperConfig(
        d_model=256,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=1024,
        decoder_ffn_dim=1024,
        vocab_size=VOCABULARY,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )

    def batch():
        return {"input_features": torch.randn(BATCH, 80, 3000), "labels": tokens(64)}

    return transformers.WhisperForConditionalGeneration, config, batch


def llava(_):
    """The image's features replace as many image tokens: a check compares the two counts."""
    image_token, size, patch = VOCABULARY - 1, 56, 14
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(
            hidden_size=256,
            intermediate_size=512,
            num_hidden_layers=4,
            num_attention_heads=4,
            image_size=size,
            patch_size=patch,
            projection_dim=128,
        ),
        text_config=transformers.LlamaConfig(**TEXT),
        image_token_index=image_token,
        image_token_id=image_token,
    )
    image = torch.full((BATCH, (size // patch) ** 2), image_token)

    def batch():
        ids = torch.cat([image, tokens(64)], dim=1)
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "pixel_values": torch.randn(BATCH, 3, size, size),
            "labels": ids,
        }

    return transformers.LlavaForConditionalGeneration, config, batch


def qwen2_vl(options):
    """Images of different sizes in one batch; positions and cuts are computed from the grid and the tokens."""
    start, end, image_token, video_token = range(VOCABULARY - 5, VOCABULARY - 1)
    grids, patch, merge = torch.tensor([[1, 8, 8], [1, 4, 12], [1, 8, 8], [1, 4, 4]]), 14, 2
    config = transformers.Qwen2VLConfig(
        vision_config={
            "depth": 2,
            "embed_dim": 128,
            "num_heads": 4,
            "hidden_size": TEXT["hidden_size"],
            "patch_size": patch,
            "spatial_merge_size": merge,
            "mlp_ratio": 2,
        },
        text_config=TEXT | {"rope_scaling": {"rope_type": "default", "mrope_section": [8, 12, 12]}},
        image_token_id=image_token,
        video_token_id=video_token,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )

    def batch():
        ids = tokens(options.context)
        for row, grid in zip(ids, grids):
            length = int(grid.prod()) // merge**2
            row[: length + 2] = torch.tensor([start, *[image_token] * length, end])
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "pixel_values": torch.randn(int(grids.prod(dim=1).sum()), 3 * 2 * patch * patch),
            "image_grid_thw": grids,
            "mm_token_type_ids": (ids == image_token).int(),
            "labels": ids,
        }

    return transformers.Qwen2VLForConditionalGeneration, config, batch


MODELS = {make.__name__: make for make in (mixtral, vit, t5, whisper, llava, qwen2_vl)}

parser = argparse.ArgumentParser()
parser.add_argument("model", choices=MODELS)
parser.add_argument("--context", type=int, default=128)
parser.add_argument("--experts", default="grouped_mm", help="how Mixtral's experts are computed (default grouped_mm)")
parser.add_argument("--routing", choices=["gpu", "host"], default="gpu", help="host: experts drawn on the host")
options = parser.parse_args()

torch.manual_seed(0)
make_model, config, make_batch = MODELS[options.model](options)
with torch.device("cuda"):
    model = make_model(config).to(torch.bfloat16).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)


def route(_, __, output):
    """Send each token to two different experts, as likely as the others, as a trained router about does."""
    chosen = output[2].data
    chosen.copy_(torch.rand(len(chosen), config.num_local_experts).topk(chosen.shape[1]).indices)


if options.routing == "host":
    for module in model.modules():
        if type(module).__name__.endswith("Router"):
            module.register_forward_hook(route)

for step in range(STEPS):
    batch = {name: tensor.cuda() for name, tensor in make_batch().items()}
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.4f}")

print_ledger(pid=os.getpid())

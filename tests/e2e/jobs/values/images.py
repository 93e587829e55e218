# SPDX-License-Identifier: MIT
"""Vision-language models from their configurations, with image tokens: prints the shapes of logits and of a generation."""

import json

import torch
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration
from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

TEXT = {"vocab_size": 200, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
IMAGE, START, END = 151, 150, 153


def train_and_generate(model, ids, **inputs):
    inputs = inputs | {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    output = model(**inputs, labels=ids)
    output.loss.backward()
    made = model.generate(**inputs, max_new_tokens=3, pad_token_id=0, do_sample=False)
    return output.logits.shape, made.shape


def llava():
    vision = CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=14
    )
    text = LlamaConfig(**TEXT)
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_id=IMAGE, vision_feature_layer=-1)
    with torch.device("cuda"):
        model = LlavaForConditionalGeneration(config)
    ids = torch.tensor([[1, *[IMAGE] * 4, 5, 6]], device="cuda")
    return train_and_generate(model, ids, pixel_values=torch.randn(1, 3, 28, 28, device="cuda"))


def qwen2_vl():
    rope = {"type": "default", "rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    config = Qwen2VLConfig(
        text_config=TEXT | {"num_key_value_heads": 2, "rope_parameters": rope},
        vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2, "patch_size": 14},
        image_token_id=IMAGE,
        video_token_id=152,
        vision_start_token_id=START,
        vision_end_token_id=END,
    )
    with torch.device("cuda"):
        model = Qwen2VLForConditionalGeneration(config)
    ids = torch.tensor([[1, START, *[IMAGE] * 4, END, 5, 6]], device="cuda")
    return train_and_generate(
        model,
        ids,
        pixel_values=torch.randn(16, 3 * 2 * 14 * 14, device="cuda"),
        image_grid_thw=torch.tensor([[1, 4, 4]], device="cuda"),
        mm_token_type_ids=(ids == IMAGE).long(),
    )


print(json.dumps({"llava": llava(), "qwen2_vl": qwen2_vl()}))

# SPDX-License-Identifier: MIT
"""diffusers: training steps of a denoising model with random weights, then a few steps of its pipeline.

usage: diffuse.py unet|dit
"""

import os
import sys

import torch
from diffusers import AutoencoderKL, DiTTransformer2DModel, UNet2DModel
from diffusers import DDIMScheduler, DDPMPipeline, DDPMScheduler, DiTPipeline

from ledger import print_ledger

BATCH, STEPS, TIMES = 4, 2, 1000


def unet():
    model = UNet2DModel(
        sample_size=32,
        in_channels=3,
        out_channels=3,
        block_out_channels=(64, 128),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=16,
    ).cuda()
    return model, (3, 32, 32), {}, lambda: DDPMPipeline(model, DDPMScheduler())(BATCH, num_inference_steps=3)


def dit():
    model = DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=32, out_channels=8, num_layers=3, sample_size=16, norm_num_groups=4
    ).cuda()
    decoder = AutoencoderKL(block_out_channels=(32,), norm_num_groups=8, sample_size=32).cuda()

    def sample():
        return DiTPipeline(model, decoder, DDIMScheduler())([1, 2], num_inference_steps=3)

    return model, (4, 16, 16), {"class_labels": torch.randint(0, 1000, (BATCH,)).cuda()}, sample


model, shape, conditions, sample = {"unet": unet, "dit": dit}[sys.argv[1]]()
schedule = DDPMScheduler(num_train_timesteps=TIMES)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

for step in range(STEPS):
    clean = torch.randn(BATCH, *shape).cuda()
    noise = torch.randn_like(clean)
    times = torch.randint(0, TIMES, (BATCH,)).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        predicted = model(schedule.add_noise(clean, noise, times), times, **conditions).sample[:, : shape[0]]
        loss = torch.nn.functional.mse_loss(predicted, noise)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.4f}")

print([image.size for image in sample().images])

print_ledger(pid=os.getpid())

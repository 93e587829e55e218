# SPDX-License-Identifier: MIT
"""A Llama's gated MLP in bf16: batch x width x inner width, activation and mode; the size is the sequence's length."""

import torch
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP

from peaks import print_peaks

SHAPES = ("4x4096x11008", "8x4096x11008", "2x2048x4096")
ACTIVATIONS = ("silu", "gelu_pytorch_tanh")
MODES = ("full", "forward", "backward")


def prepare(length, shape, activation, mode):
    batch, width, inner = map(int, shape.split("x"))
    config = LlamaConfig(hidden_size=width, intermediate_size=inner, hidden_act=activation)
    x = torch.randn(batch, length, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    with torch.device("cuda"):
        mlp = LlamaMLP(config=config).to(torch.bfloat16)

    def full():
        y = mlp(x)
        y.backward(torch.randn_like(y), retain_graph=True)

    if mode == "full":
        return full
    if mode == "forward":
        # The benchmark measures this mode after "full": the thread that ran backward keeps its cuBLAS workspace.
        full()
        x.grad = None
        mlp.zero_grad()
        return lambda: mlp(x)
    y = mlp(x)
    gradient = torch.randn_like(y)
    return lambda: y.backward(gradient, retain_graph=True)


print_peaks(prepare, SHAPES, ACTIVATIONS, MODES)

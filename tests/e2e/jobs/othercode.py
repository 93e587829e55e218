# SPDX-License-Identifier: MIT
"""Training that can be told to use other code, each change really made; prints what the allocator counted.

usage: othercode.py MODEL [--batch N] [--checkpoint] [--no-ema] [--no-side] [--no-state] [--state TYPE] [--type TYPE] [--amp] [--named]
"""

import argparse
import copy
import time

BEGUN = time.monotonic()

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from ledger import print_ledger  # noqa: E402
from whatif import Llama  # noqa: E402

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}


class Adam(torch.optim.Optimizer):
    """Adam whose state is of any type: what matters here is how large it is."""

    def __init__(self, parameters, state):
        super().__init__(parameters, {})
        self.type = TYPES[state]

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p, dtype=self.type)
                    state["exp_avg_sq"] = torch.zeros_like(p, dtype=self.type)
                p.add_(p.grad, alpha=-1e-3)


class Convolutions(nn.Module):
    """Stages that are not alike."""

    def __init__(self, width=64, stages=4, classes=1000):
        super().__init__()
        widths = [3] + [width << stage for stage in range(stages)]
        self.stages = nn.ModuleList(self.stage(a, b) for a, b in zip(widths, widths[1:]))
        self.head = nn.Linear(widths[-1], classes)

    @staticmethod
    def stage(a, b):
        return nn.Sequential(
            nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, stride=2, padding=1), nn.BatchNorm2d(b), nn.ReLU()
        )

    def forward(self, images):
        x = images
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean((2, 3)))


class Perceptron(nn.Module):
    """With another way from the input to the result, which can be left out."""

    def __init__(self, width=2048, depth=12):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth))
        self.side = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, 1))

    def forward(self, inputs):
        x = inputs
        for layer in self.layers:
            x = layer(x)
        return x if self.side is None else x + self.side(inputs)


def resnet():
    import torchvision

    return torchvision.models.resnet50()


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_layer=8, n_embd=768, n_head=12, vocab_size=32000, use_cache=False))


def tokens(batch, type):
    return torch.zeros(batch, 512, dtype=torch.long, device="cuda")


def images(size):
    return lambda batch, type: torch.zeros(batch, 3, size, size, device="cuda", dtype=type)


def rows(batch, type):
    return torch.zeros(batch, 2048, device="cuda", dtype=type)


def of_words(output, batch):
    output = getattr(output, "logits", output)
    return functional.cross_entropy(output.flatten(0, 1), batch.flatten())


def of_values(output, batch):
    return output.square().mean()


# The model, its samples, the loss, and the list of modules that are checkpointed.
MODELS = {
    "llama": (Llama, tokens, of_words, "layers"),
    "gpt2": (gpt2, tokens, of_words, "transformer.h"),
    "convolutions": (Convolutions, images(128), of_values, "stages"),
    "resnet": (resnet, images(224), of_values, ""),
    "perceptron": (Perceptron, rows, of_values, "layers"),
}


def checkpointed(model, layers):
    """Each layer is computed a second time in backward."""
    for layer in model.get_submodule(layers).children() if layers else [getattr(model, f"layer{i}") for i in range(1, 5)]:
        forward = layer.forward
        layer.forward = lambda *x, forward=forward, **more: checkpoint(forward, *x, use_reentrant=False, **more)


def train(options):
    make, samples, loss_of, layers = MODELS[options.model]
    with torch.device("cuda"):
        model = make()
    model.to(TYPES[options.type])
    ema = None if options.no_ema else copy.deepcopy(model)
    if options.no_side:
        model.side = None
    if options.checkpoint:
        checkpointed(model, layers)
    if options.no_state:
        optimizer = torch.optim.SGD(model.parameters(), foreach=False)
    elif options.state:
        optimizer = Adam(model.parameters(), options.state)
    else:
        optimizer = torch.optim.AdamW(model.parameters())
    for step in range(options.steps):
        if options.named and step == 3:  # at as much memory again there is a census, if the run is twice as old as at the latest
            time.sleep(time.monotonic() - BEGUN)
        if options.named and step == 5:  # it has its time before the program ends
            time.sleep(0.5)
        batch = samples(options.batch, TYPES[options.type])
        with torch.autocast("cuda", torch.bfloat16, enabled=options.amp):
            loss = loss_of(model(batch), batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if ema is not None:
            with torch.no_grad():
                for average, p in zip(ema.parameters(), model.parameters()):
                    average.lerp_(p, 0.01)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--state")
    parser.add_argument("--type", default="float32")
    for flag in ("checkpoint", "no-ema", "no-side", "no-state", "amp", "named"):
        parser.add_argument(f"--{flag}", action="store_true")
    train(parser.parse_args())
    print_ledger()

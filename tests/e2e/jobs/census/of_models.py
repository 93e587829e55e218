# SPDX-License-Identifier: MIT
"""Two steps of a model that packages make, then memory runs out: names and addresses of what it holds, as it knows them.

of_models.py NAME prints {"parameters": {address: [names]}, "buffers": ..., "gradients": ..., "states": ..., "calls": [[module,
allocations before its forward, and at its end]]} when its last allocation has failed. Nothing is loaded: all models are small ones, made from configurations.
"""

import io
import json
import sys
import time
from pathlib import Path

import torch
from torch import nn


def vision(name, size=64, **options):
    import torchvision

    return torchvision.models.get_model(name, weights=None, num_classes=10, **options), lambda: (torch.randn(2, 3, size, size, device="cuda"),)


def timm_model(name, size=64, **options):
    import timm

    return timm.create_model(name, pretrained=False, num_classes=10, **options), lambda: (torch.randn(2, 3, size, size, device="cuda"),)


def language(kind, **options):
    import transformers

    config = getattr(transformers, f"{kind}Config")(**options)
    made = {"T5": "T5ForConditionalGeneration", "Bert": "BertForMaskedLM", "GPT2": "GPT2LMHeadModel"}
    model = getattr(transformers, made.get(kind, f"{kind}ForCausalLM"))(config)
    words = lambda: torch.zeros(2, 16, dtype=torch.long, device="cuda")
    return model, lambda: {"input_ids": words(), "labels": words()}


SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 512}


def lora():
    import peft

    model, inputs = language("Llama", **SMALL, num_key_value_heads=4)
    return peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"])), inputs


def unet():
    import diffusers

    model = diffusers.UNet2DModel(sample_size=16, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
                                  down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                                  up_block_types=("AttnUpBlock2D", "UpBlock2D"))  # fmt: skip
    return model, lambda: (torch.randn(1, 3, 16, 16, device="cuda"), torch.tensor(1, device="cuda"))


def plain():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)
            self.register_buffer("scale", torch.ones(64))

        def forward(self, x):
            return x + self.down(torch.relu(self.up(x))) * self.scale

    return nn.Sequential(*(Block() for _ in range(3))), lambda: (torch.randn(4, 64, device="cuda"),)


def one_rank():
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1)


def ddp():
    one_rank()
    model, inputs = plain()
    return nn.parallel.DistributedDataParallel(model.cuda()), inputs


def fsdp2():
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:  # before 2.6
        from torch.distributed._composable.fsdp import fully_shard

    one_rank()
    model, inputs = plain()
    model = model.cuda()
    for block in model:
        fully_shard(block)
    return fully_shard(model), inputs


def compiled():
    model, inputs = plain()
    return torch.compile(model.cuda(), backend="aot_eager"), inputs


MODELS = {
    "resnet": lambda: vision("resnet18"),
    "convnext": lambda: vision("convnext_tiny"),
    "swin": lambda: vision("swin_t"),
    "efficientnet": lambda: vision("efficientnet_b0"),
    "vit": lambda: vision("vit_b_32", image_size=64),
    "mobilenet": lambda: timm_model("mobilenetv3_small_100"),
    "mixer": lambda: timm_model("mixer_s32_224", img_size=64),
    "deit": lambda: timm_model("deit_tiny_patch16_224", img_size=64),
    "regnet": lambda: timm_model("regnetx_002"),
    "llama": lambda: language("Llama", **SMALL, num_key_value_heads=2),
    "mistral": lambda: language("Mistral", **SMALL, num_key_value_heads=2),
    "qwen": lambda: language("Qwen3", **SMALL, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True),
    "gpt2": lambda: language("GPT2", n_embd=64, n_layer=3, n_head=4, vocab_size=512),
    "t5": lambda: language("T5", d_model=64, d_ff=128, num_layers=2, num_heads=4, d_kv=16, vocab_size=512, decoder_start_token_id=0),
    "bert": lambda: language("Bert", **SMALL),
    "lora": lora,
    "unet": unet,
    "plain": plain,
    "ddp": ddp,
    "fsdp2": fsdp2,
    "compiled": compiled,
    "resumed": plain,
}  # fmt: skip


def loss_of(output):
    if isinstance(output, torch.Tensor):
        return output.float().mean()
    loss = getattr(output, "loss", None)
    return loss if loss is not None else output.sample.float().mean()


def step(model, optimizer, inputs):
    batch = inputs()
    loss = loss_of(model(**batch) if isinstance(batch, dict) else model(*batch))
    loss.backward()
    optimizer.step()


def local(tensor):
    """What a tensor has on this device: of a sharded one its part."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def addresses(named):
    found = {}
    for name, tensor in named:
        if tensor is not None and local(tensor).is_cuda and local(tensor).untyped_storage().size():
            found.setdefault(local(tensor).untyped_storage().data_ptr(), []).append(name)
    return found


def truth(model, optimizer):
    parameters = dict(model.named_parameters(remove_duplicate=False))
    names = {}
    for name, one in parameters.items():
        names.setdefault(id(one), []).append(name)
    states = [
        (f"{key} of {name}", value)
        for one, state in optimizer.state.items() for name in names[id(one)]
        for key, value in state.items() if torch.is_tensor(value)
    ]  # fmt: skip
    return {
        "parameters": addresses(parameters.items()),
        "buffers": addresses(model.named_buffers(remove_duplicate=False)),
        "gradients": addresses((name, one.grad) for name, one in parameters.items()),
        "states": addresses(states),
    }


def nr_allocations():
    return torch.cuda.memory_stats().get("allocation.all.allocated", 0)


def watch(model):
    """Each call of each module, by its hooks: its name, and how many allocations there had been when it began and ended."""
    running, calls = [], []
    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: running.append((name, nr_allocations())))
        module.register_forward_hook(lambda *_: calls.append([*running.pop(), nr_allocations()]))
    return calls


def wait_for_copies():
    """Until the census is written: at the program's end it would be cut where the machine is busy."""
    until = time.monotonic() + 20
    while any((task / "children").read_text() for task in Path("/proc/self/task").iterdir()) and time.monotonic() < until:
        time.sleep(0.05)


def saved(model, inputs):
    """What an earlier job has left: its optimizer's state will be that of this one, its weights will be copied."""
    optimizer, file = torch.optim.AdamW(model.parameters()), io.BytesIO()
    step(model, optimizer, inputs)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    return torch.load(file, map_location="cuda")


def main():
    checkpoint = saved(plain()[0].cuda(), plain()[1]) if sys.argv[1] == "resumed" else None
    model, inputs = MODELS[sys.argv[1]]()
    model = model.cuda()
    calls = watch(model) if sys.argv[1] != "compiled" else []  # hooks would be compiled
    optimizer = torch.optim.AdamW(model.parameters())
    if checkpoint:
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    for _ in range(2):
        optimizer.zero_grad()
        step(model, optimizer, inputs)
    known = truth(model, optimizer)
    try:
        torch.empty(1 << 45, device="cuda")
    except torch.OutOfMemoryError:
        print(json.dumps(known | {"calls": calls}))
    wait_for_copies()


main()

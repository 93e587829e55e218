# SPDX-License-Identifier: MIT
"""What libraries on top of PyTorch do: the cases of test_coverage_models.py.

Option `ranks`: on so many simulated GPUs; with `torchrun`, that starts the ranks, else the job itself does.
"""

from coverage_table import EXACT, MODELLED, Case

CUDNN = "convolutions: [workspaces](simulated-libraries.md#scratch-memory) of cuDNN"


def row(name, what, job, status=EXACT, note="", slow=True, **options):
    return Case(name, what, status, f"../models/{job}", note=note, slow=slow, options=options)


def model(name, what, *arguments, **more):
    return row(name, what, " ".join(("train_transformers.py", name.replace("-", "_"), *arguments)), **more)


CASES = [
    row(
        "hf-trainer",
        "transformers `Trainer`: bf16, gradient checkpointing, accumulation, DataLoader worker, evaluation",
        "fit_hf_trainer.py",
        slow=False,
    ),
    row("peft-lora", "peft LoRA under the same `Trainer`", "fit_hf_trainer.py --lora"),
    row(
        "generate",
        "transformers `generate`: greedy, sampling, padded prompts",
        "generate.py greedy sample",
        note="no end token is ever drawn: as long as the program allows",
        slow=False,
    ),
    row(
        "generate-beams",
        "transformers `generate`: beam search",
        "generate.py beams",
        MODELLED,
        "too low: beams have no scores, so the search ends after its first step",
    ),
    model("mixtral", "Mixtral (mixture of experts), grouped products", slow=False),
    row(
        "mixtral-loop",
        "Mixtral, experts in a loop",
        "train_transformers.py mixtral --experts eager",
        MODELLED,
        "routing: every token goes to the first expert",
    ),
    model("llava", "LLaVA: image and text", status=MODELLED, note=CUDNN, slow=False),
    model("qwen2-vl", "Qwen2-VL: images of different sizes and text", status=MODELLED, note=CUDNN),
    model("vit", "ViT", status=MODELLED, note=CUDNN),
    model("t5", "T5"),
    model("whisper", "Whisper", status=MODELLED, note=CUDNN),
    row(
        "fasterrcnn",
        "torchvision Faster R-CNN, training and evaluation",
        "detect.py fasterrcnn",
        MODELLED,
        "too low: no boxes are found, so the second stage has only the true ones",
        slow=False,
    ),
    row(
        "maskrcnn",
        "torchvision Mask R-CNN, training and evaluation",
        "detect.py maskrcnn",
        MODELLED,
        "as Faster R-CNN",
    ),
    row(
        "timm",
        "timm ConvNeXt, `channels_last`, optimizer, scheduler, `ModelEmaV3`, mixup",
        "train_timm.py",
        MODELLED,
        CUDNN,
    ),
    row("diffusers-unet", "diffusers UNet: training, `DDPMPipeline`", "diffuse.py unet", MODELLED, CUDNN),
    row("diffusers-dit", "diffusers DiT: training, `DiTPipeline`", "diffuse.py dit", MODELLED, CUDNN),
    row("lightning", "Lightning, bf16-mixed, one device", "fit_lightning.py 1"),
    row("lightning-ddp", "Lightning, bf16-mixed, two devices", "fit_lightning.py 2", ranks=2),
    row("accelerate", "accelerate, one rank", "train_accelerate.py", ranks=1),
    row("accelerate-ddp", "accelerate, two ranks", "train_accelerate.py", ranks=2, torchrun=True),
    *(
        row(
            f"deepspeed-zero{stage}{'' if ranks == 1 else '-ddp'}",
            f"DeepSpeed ZeRO-{stage}, {'one rank' if ranks == 1 else 'two ranks'}",
            f"train_deepspeed.py {stage}",
            ranks=ranks,
            torchrun=ranks > 1,
        )
        for stage in (2, 3)
        for ranks in (1, 2)
    ),
    row("bitsandbytes", "bitsandbytes: 4-bit and 8-bit weights, 8-bit and paged Adam", "train_bitsandbytes.py"),
    row("torchao", "torchao: int8 weights, 8-bit Adam (compiled), float8 training", "train_torchao.py"),
]

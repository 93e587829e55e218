# SPDX-License-Identifier: MIT
"""FSDP1, FSDP2 and hybrid sharding, with mixed precision, offload, and a checkpoint of the shards."""

import torch
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffload,
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.utils.checkpoint import checkpoint as recompute

from case import case, make_model, train


def train_fsdp1(place, clip=True, **options):
    options = {"use_orig_params": True, "device_id": place.device} | options
    model = make_model()
    wrap = ModuleWrapPolicy({torch.nn.Linear})
    model = FullyShardedDataParallel(model, auto_wrap_policy=wrap, sync_module_states=True, **options)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(16 * (1 + place.rank), 512, device="cuda")).sum().backward()
        if clip:
            model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model


@case
def fsdp1(place):
    train_fsdp1(place)


@case
def fsdp1_flat_parameters(place):
    train_fsdp1(place, use_orig_params=False)


@case
def fsdp1_mixed_precision(place):
    half = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)
    train_fsdp1(place, mixed_precision=half)


@case
def fsdp1_cpu_offload(place):
    train_fsdp1(place, cpu_offload=CPUOffload(offload_params=True))


@case
def fsdp1_shard_grad_op(place):
    train_fsdp1(place, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)


def train_fsdp2(place, **options):
    model = make_model("meta")
    for block in model:
        fully_shard(block, **options)
    fully_shard(model, **options)
    model.to_empty(device="cpu" if "offload_policy" in options else "cuda")
    return model, train(model, torch.optim.AdamW(model.parameters()), rows=16 * (1 + place.rank))


@case
def fsdp2(place):
    return train_fsdp2(place)[1]


@case
def fsdp2_mixed_precision(place):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return train_fsdp2(place, mp_policy=policy)[1]


@case
def fsdp2_no_reshard(place):
    return train_fsdp2(place, reshard_after_forward=False)[1]


@case
def fsdp2_reshard_to_two(place):
    return train_fsdp2(place, reshard_after_forward=2)[1]


@case
def fsdp2_cpu_offload(place):
    model, norms = train_fsdp2(place, offload_policy=CPUOffloadPolicy())
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
    return norms


@case
def fsdp2_activation_checkpointing(place):
    class Recomputed(torch.nn.Module):
        def __init__(self, block):
            super().__init__()
            self.block = block

        def forward(self, x):
            return recompute(self.block, x, use_reentrant=False)

    model = torch.nn.Sequential(*(Recomputed(block) for block in make_model()))
    for block in model:
        fully_shard(block)
    fully_shard(model)
    return train(model, torch.optim.AdamW(model.parameters()), rows=256)


@case
def hsdp(place):
    """FSDP2 in two groups that replicate each other."""
    mesh = init_device_mesh("cuda", (2, place.world // 2), mesh_dim_names=("replicate", "shard"))
    return train_fsdp2(place, mesh=mesh)[1]


@case
def hsdp_fsdp1(place):
    mesh = init_device_mesh("cuda", (2, place.world // 2), mesh_dim_names=("replicate", "shard"))
    train_fsdp1(place, device_mesh=mesh, sharding_strategy=ShardingStrategy.HYBRID_SHARD)


@case
def sharded_checkpoint(place):
    """torch.distributed.checkpoint: save the shards of model and optimizer, then load them."""
    model = make_model()
    for block in model:
        fully_shard(block)
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer)
    parameters, state = get_state_dict(model, optimizer)
    folder = place.folder / "checkpoint"
    checkpoint.save({"model": parameters, "optimizer": state}, checkpoint_id=folder)
    checkpoint.load({"model": parameters, "optimizer": state}, checkpoint_id=folder)
    return sum(1 for file in folder.iterdir() if file.suffix == ".distcp")

# SPDX-License-Identifier: MIT
"""Tensor, sequence and pipeline parallelism, and a mesh of two of them."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

from case import WIDTH, case, make_model, train

VOCABULARY = 4096


def split_linears(model, mesh):
    for block in model:
        parallelize_module(block, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


@case
def tensor_parallel(place):
    model = make_model()
    split_linears(model, init_device_mesh("cuda", (place.world,)))
    return train(model, torch.optim.AdamW(model.parameters()))


@case
def sequence_parallel(place):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(WIDTH, device="cuda")
            self.up = nn.Linear(WIDTH, 4 * WIDTH, device="cuda")
            self.down = nn.Linear(4 * WIDTH, WIDTH, device="cuda")

        def forward(self, x):
            return self.down(F.gelu(self.up(self.norm(x))))

    mesh = init_device_mesh("cuda", (place.world,))
    block = Block()
    plan = {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    }
    parallelize_module(block, mesh, plan)
    optimizer = torch.optim.AdamW(block.parameters())
    for _ in range(2):
        output = block(torch.randn(2, 64 // place.world, WIDTH, device="cuda"))
        output.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return list(output.shape)


@case
def parallel_loss(place):
    """The logits stay sharded by vocabulary, and so does the loss."""
    mesh = init_device_mesh("cuda", (place.world,))
    head = nn.Linear(WIDTH, VOCABULARY, bias=False, device="cuda")
    plan = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    parallelize_module(head, mesh, plan)
    optimizer = torch.optim.AdamW(head.parameters())
    targets = torch.arange(64).cuda()
    for _ in range(2):
        logits = head(torch.randn(64, WIDTH, device="cuda"))
        assert logits.to_local().shape == (64, VOCABULARY // place.world)
        with loss_parallel():
            F.cross_entropy(logits, targets).backward()
        optimizer.step()
        optimizer.zero_grad()


def run_pipeline(place, make_schedule, stages_a_rank=1, rows=4, exchange_shapes=False):
    """Two steps of 16 rows. The stages are told the shapes of a micro-batch (ROWS) or ask each other for them."""
    nr_stages = place.world * stages_a_rank
    layers = make_model(blocks=nr_stages)
    shape = None if exchange_shapes else torch.empty(rows, WIDTH, device="meta")
    stages = [
        PipelineStage(layers[index], index, nr_stages, place.device, input_args=shape, output_args=shape)
        for index in range(place.rank, nr_stages, place.world)
    ]
    schedule = make_schedule(stages, lambda output, target: (output - target).pow(2).mean())
    optimizer = torch.optim.AdamW([p for stage in stages for p in stage.submod.parameters()])
    for _ in range(2):
        batch = torch.randn(16, WIDTH, device="cuda")
        if place.rank == 0:
            schedule.step(batch)
        elif place.rank == place.world - 1:
            schedule.step(target=batch)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()


@case
def pipeline_gpipe(place):
    run_pipeline(place, lambda stages, loss: ScheduleGPipe(stages[0], 4, loss_fn=loss))


@case
def pipeline_1f1b(place):
    run_pipeline(place, lambda stages, loss: Schedule1F1B(stages[0], 8, loss_fn=loss), rows=2)


@case
def pipeline_interleaved(place):
    run_pipeline(place, lambda stages, loss: ScheduleInterleaved1F1B(stages, 4, loss_fn=loss), stages_a_rank=2)


@case
def pipeline_shape_exchange(place):
    run_pipeline(place, lambda stages, loss: Schedule1F1B(stages[0], 8, loss_fn=loss), exchange_shapes=True)


@case
def tensor_and_data_parallel(place):
    """Tensor parallelism within pairs, FSDP2 across them."""
    mesh = init_device_mesh("cuda", (place.world // 2, 2), mesh_dim_names=("data", "tensor"))
    model = make_model()
    split_linears(model, mesh["tensor"])
    for block in model:
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    return train(model, torch.optim.AdamW(model.parameters()))

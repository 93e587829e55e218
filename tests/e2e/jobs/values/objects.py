# SPDX-License-Identifier: MIT
"""Objects, a pipeline and sharded tensors over NCCL alone, whose sizes are computed on the device: prints what each rank
got."""

import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Shard, distribute_tensor

from reads import reads

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
got = {"rank": rank}

gathered = [None] * world
dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank})
got["gathered"] = gathered
shared = [{"a": 1}, [2, 3]] if rank == 0 else [None, None]
dist.broadcast_object_list(shared, src=0)
got["shared"] = shared
mine = [None]
dist.scatter_object_list(mine, [10, 20][:world] if rank == 0 else None, src=0)
got["scattered"] = mine

with torch.device("cuda"):
    stage = PipelineStage(nn.Sequential(nn.Linear(16, 16), nn.ReLU()), rank, world, torch.device("cuda", rank))
schedule = Schedule1F1B(stage, 4, loss_fn=nn.MSELoss())
batch = torch.randn(8, 16, device="cuda")
schedule.step(batch) if rank == 0 else schedule.step(target=batch)

sharded = distribute_tensor(torch.arange(8, device="cuda"), init_device_mesh("cuda", (world,)), [Shard(0)]) * 2
got["sharded"] = [sharded.to_local().tolist(), sharded.full_tensor().tolist()]

count, loss = torch.tensor([rank + 1], device="cuda"), torch.randn(4, device="cuda").sum()
dist.all_reduce(count)
dist.all_reduce(loss)
got["count"], got["loss"] = reads(count.item), reads(loss.item)
os.write(1, (json.dumps(got) + "\n").encode())  # in one piece: the ranks share a pipe
dist.destroy_process_group()

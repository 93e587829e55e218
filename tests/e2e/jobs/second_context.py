# SPDX-License-Identifier: MIT
"""Under torchrun: every rank works on its own device, and all but the first touch device 0 as well."""

import json
import os

import torch
import torch.distributed as dist


def used():
    """Of device 0; asking creates a context there, too."""
    free, total = torch.cuda.mem_get_info(0)
    return total - free


rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
own = torch.empty(1, device="cuda")
dist.barrier()
before = used() if rank == 0 else None
dist.barrier()
if rank:
    stray = torch.empty(1, device="cuda:0")
dist.barrier()
if rank == 0:
    print(json.dumps({"before": before, "after": used()}))
dist.barrier()
dist.destroy_process_group()

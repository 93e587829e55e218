# SPDX-License-Identifier: MIT
"""One rank of a job: runs the named cases one after another in one process group, then writes the peaks that PyTorch's
allocator saw in each to LEDGERS/RANK.json. Started by torchrun, or for some of the ranks by `vramtrace run --ranks`.

    some_ranks.py [--backend B] [--eager] LEDGERS CASE...
"""

import argparse
import gc
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

import alike
import data_parallel
import model_parallel
import sharded
from case import Place, cases_of

CASES = cases_of(data_parallel, sharded, model_parallel, alike)


def settle():
    """Wait until peaks no longer depend on the timing of threads: PyTorch's hold the last graph, and the tensors of
    finished collectives up to a tenth of a second. What they let go may be garbage only then."""
    torch.cuda.synchronize()
    for _ in range(2):
        time.sleep(0.2)
        gc.collect()


def run_case(name, place):
    dist.all_reduce(torch.zeros(1, device="cuda"))  # the last collective's tensors are held until the next one
    settle()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(0)
    CASES[name](place)
    torch.cuda.synchronize()
    return {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}


parser = argparse.ArgumentParser()
parser.add_argument("--backend")
parser.add_argument("--eager", action="store_true")
parser.add_argument("ledgers", type=Path)
parser.add_argument("cases", nargs="+", choices=CASES)
options = parser.parse_args()

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
register_optimizer_step_post_hook(lambda *_: settle())
dist.init_process_group(options.backend, device_id=device if options.eager else None)
place = Place(dist.get_rank(), dist.get_world_size(), device, options.ledgers)
peaks = {name: run_case(name, place) for name in options.cases}
(options.ledgers / f"{place.rank}.json").write_text(json.dumps(peaks))
dist.destroy_process_group()

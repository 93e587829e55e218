# SPDX-License-Identifier: MIT
"""One rank of a job under torchrun: runs the named cases one after another in one process group, then writes what
PyTorch's allocator counted in each and in all of them to LEDGERS/RANK.json.

    torchrun --nproc-per-node N worker.py [--backend B] [--eager] [--no-destroy] LEDGERS CASE...
"""

import argparse
import gc
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import collectives
import data_parallel
import endings
import model_parallel
import sharded
from case import Place, cases_of

sys.path.append(str(Path(__file__).resolve().parents[1]))
from ledger import COUNTERS

CASES = cases_of(data_parallel, sharded, model_parallel, collectives, endings)


def events_so_far():
    stats = torch.cuda.memory_stats()
    return stats["allocation.all.allocated"] + stats["allocation.all.freed"]


def run_case(name, place):
    """Run one case; returns where its events begin and end among the rank's, and its own peaks."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    first = events_so_far()
    try:
        seen = CASES[name](place)
    except Exception as error:
        error.add_note(f"in case {name} on rank {place.rank} of {place.world}")
        raise
    torch.cuda.synchronize()
    return {
        "first_event": first,
        "end_event": events_so_far(),
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "reserved_peak_bytes": torch.cuda.max_memory_reserved(),
        "seen": seen,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="cpu:gloo,cuda:nccl")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--no-destroy", action="store_true")
    parser.add_argument("ledgers", type=Path)
    parser.add_argument("cases", nargs="+", choices=CASES)
    options = parser.parse_args()

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group(options.backend, device_id=device if options.eager else None)
    place = Place(dist.get_rank(), dist.get_world_size(), device, options.ledgers)
    torch.manual_seed(0)

    cases = {name: run_case(name, place) for name in options.cases}
    gc.collect()
    torch.cuda.synchronize()
    if not options.no_destroy:
        dist.destroy_process_group()
    stats = torch.cuda.memory_stats()
    ledger = {name: stats[name] for name in COUNTERS} | {"cases": cases}
    # The peaks were reset before each case: those of the whole life are the largest.
    for counter, peak in (("allocated", "peak_bytes"), ("reserved", "reserved_peak_bytes")):
        counter += "_bytes.all.peak"
        ledger[counter] = max(ledger[counter], *(case[peak] for case in cases.values()))
    (options.ledgers / f"{place.rank}.json").write_text(json.dumps(ledger))


main()

# SPDX-License-Identifier: MIT
"""Ranks that end before the others do."""

import os
import signal

import torch
import torch.distributed as dist

from case import case


@case
def killed(place):
    """The last rank is killed; the others wait for it in a collective."""
    tensor = torch.tensor([place.rank]).cuda()
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    if place.rank == place.world - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        dist.all_reduce(tensor)
        torch.cuda.synchronize()


@case
def fails_once(place):
    """The last rank raises in the job's first attempt; torchrun's --max-restarts gives it another."""
    tensor = torch.tensor([1]).cuda()
    dist.all_reduce(tensor)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if place.rank == place.world - 1:
            raise RuntimeError("first attempt")
        dist.all_reduce(tensor)
        torch.cuda.synchronize()
        signal.pause()
    return int(os.environ["TORCHELASTIC_RESTART_COUNT"])

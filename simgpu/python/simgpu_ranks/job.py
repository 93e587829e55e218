# SPDX-License-Identifier: MIT
"""Who is present in the job and in its groups."""

import io
import os

import torch

PRESENT = sorted(int(rank) for rank in os.environ["SIMGPU_RANKS"].split(","))

c10d = None  # torch.distributed.distributed_c10d
numbers = {}  # of each group, and of each pair of ranks: how many messages there were


def places(ranks):
    """Positions in the group of global ranks RANKS that are present."""
    return [place for place, rank in enumerate(ranks) if rank in PRESENT]


def nccl_backend(group):
    return group._get_backend(torch.device("cuda"))


def to_bytes(value):
    written = io.BytesIO()
    torch.save(value, written)
    return written.getvalue()


def from_bytes(data):
    return torch.load(io.BytesIO(data))


def is_on_device(value):
    """Whether a tensor, or the first of a list, is the simulated NCCL's matter."""
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return getattr(value, "is_cuda", True)


def done_work():
    future = torch.futures.Future()
    future.set_result(None)
    return torch._C._distributed_c10d._create_work_from_future(future)


class Group:
    """A group as an operation's arguments name it."""

    def __init__(self, group):
        self.group = group if group is not None else c10d._get_default_group()
        self.ranks = c10d.get_process_group_ranks(self.group)
        self.present = places(self.ranks)
        self.is_partial = len(self.present) < len(self.ranks)
        self.me = c10d.get_rank(self.group)

    @property
    def store(self):
        return c10d._world.pg_map[self.group][1]

    @property
    def is_ours(self):
        """Whether operations on CPU tensors are done here."""
        try:
            return self.is_partial and isinstance(self.group._get_backend(torch.device("cpu")), c10d.ProcessGroupGloo)
        except RuntimeError:
            return False  # it has no backend for the CPU

    def place(self, rank, group_rank):
        """The position of global RANK or of GROUP_RANK, whichever is given; 0 if neither is."""
        if group_rank is not None:
            return group_rank
        return self.ranks.index(rank) if rank is not None else 0

    def stand_in(self, place):
        return place if place in self.present else self.present[0]

    def exchange(self, value):
        """What every rank of the group has for VALUE, in order of rank; all present ranks must call this."""
        if len(self.present) == 1:
            return [value] * len(self.ranks)
        n = numbers[self.group] = numbers.get(self.group, 0) + 1
        self.store.set(f"simgpu/{n}/{self.me}", to_bytes(value))
        values = {
            place: value if place == self.me else from_bytes(self.store.get(f"simgpu/{n}/{place}"))
            for place in self.present
        }
        # All have read those of the exchange before the last: each has since written the last one.
        self.store.delete_key(f"simgpu/{n - 2}/{self.me}")
        return [values[self.stand_in(place)] for place in range(len(self.ranks))]

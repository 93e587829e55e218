# SPDX-License-Identifier: MIT
"""Process groups some of whose ranks are absent.

NCCL learns which ranks of a communicator are present from its configuration, and finds in the store the ids that an
absent rank would have put there. Gloo connects all ranks when a group is made: each rank gets one for itself, and
cpu.py does what that should do.
"""

import copy
import functools
import secrets
import threading

from . import job
from .job import nccl_backend, places

NR_IDS = 8  # communicators that one group may make in its life, all but the first after an abort

making = threading.local()  # .ranks: global ranks of the group that this thread is making


def new_id():
    """As long as an ncclUniqueId, of which simgpu takes the first 8 bytes."""
    return secrets.token_urlsafe(96)


def tag(options, ranks):
    """Say in the configuration of NCCL which ranks of its communicators are present."""
    options.config.net_name = f"simgpu:{len(ranks)}:{','.join(map(str, places(ranks)))}"


def new_nccl(real, store, rank, size, options=None, **more):
    present = places(making.ranks)
    if options is not None and len(present) < size:
        tag(options, making.ranks)
        if rank == present[0] != 0:
            for n in range(NR_IDS):
                store.set(str(n), new_id())
        for low in range(rank):  # a lone send or receive makes a communicator for two, with its lower rank's id
            if low not in present:
                store.set(f"{low}:{rank}", new_id())
    return real(store, rank, size, *([] if options is None else [options]), **more)


def new_gloo(real, store, rank, size, *arguments, **more):
    if len(places(making.ranks)) == size:
        return real(store, rank, size, *arguments, **more)
    return real(job.c10d.PrefixStore(f"alone{rank}/", store), 0, 1, *arguments, **more)


def constructed_by(real, construct):
    """A class that passes for REAL, whose instances CONSTRUCT makes."""

    class Meta(type):
        def __call__(cls, *arguments, **more):
            return construct(real, *arguments, **more)

        def __instancecheck__(cls, instance):
            return isinstance(instance, real)

        def __subclasscheck__(cls, subclass):
            return issubclass(subclass, real)

        def __getattr__(cls, name):
            return getattr(real, name)

    return Meta(real.__name__, (), {"__module__": real.__module__, "__doc__": real.__doc__})


def remember_ranks(make):
    @functools.wraps(make)
    def new_process_group_helper(size, rank, ranks, *arguments, **more):
        making.ranks = list(ranks) or list(range(size))
        return make(size, rank, ranks, *arguments, **more)

    return new_process_group_helper


def tag_splits(split):
    """NCCL is not told the size of a communicator that is split off another one."""

    @functools.wraps(split)
    def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, **more):
        parent = parent_pg or job.c10d._get_default_group()
        ranks, me = job.c10d.get_process_group_ranks(parent), job.c10d.get_rank(parent)
        mine = next((sorted(part) for part in split_ranks or () if me in part), None)
        if mine is not None:
            pg_options = pg_options or copy.deepcopy(nccl_backend(parent).options)
            tag(pg_options, [ranks[place] for place in mine])
        return split(parent_pg, split_ranks, timeout, pg_options, group_desc, **more)

    return split_group


def adapt():
    c10d = job.c10d
    c10d._new_process_group_helper = remember_ranks(c10d._new_process_group_helper)
    if hasattr(c10d, "ProcessGroupNCCL"):
        c10d.ProcessGroupNCCL = constructed_by(c10d.ProcessGroupNCCL, new_nccl)
    if hasattr(c10d, "ProcessGroupGloo"):
        c10d.ProcessGroupGloo = constructed_by(c10d.ProcessGroupGloo, new_gloo)
    if hasattr(c10d, "split_group"):
        c10d.split_group = tag_splits(c10d.split_group)
    if hasattr(c10d, "_store_based_barrier"):
        # Absent ranks do not count themselves in.
        c10d._store_based_barrier = lambda *arguments, **more: None

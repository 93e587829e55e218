# SPDX-License-Identifier: MIT
"""Collectives to which all ranks contribute alike: the results are the same when some of the ranks are absent."""

import torch
import torch.distributed as dist

from case import case

CPU, GPU = torch.device("cpu"), torch.device("cuda")
FACTS = {"shape": [3, 4], "name": "layer", "bytes": b"\x00\x01"}


def expect(tensor, values):
    assert tensor.cpu().tolist() == values, f"{tensor.cpu().tolist()} instead of {values}"


def devices(group=None):
    """Where the group's tensors may be."""
    return [CPU, GPU] if "gloo" in str(dist.get_backend_config(group)) else [GPU]


def tensor(values, device, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype).to(device)


@case
def alike_reductions(place):
    for device in devices():
        for operation, wanted in (
            (dist.ReduceOp.SUM, [3 * place.world, 5 * place.world]),
            (dist.ReduceOp.MAX, [3, 5]),
            (dist.ReduceOp.MIN, [3, 5]),
            (dist.ReduceOp.PRODUCT, [3**place.world, 5**place.world]),
        ):
            both = tensor([3, 5], device)
            dist.all_reduce(both, operation)
            expect(both, wanted)
        both = tensor([3, 5], device)
        work = dist.all_reduce(both, async_op=True)
        work.wait()
        expect(both, [3 * place.world, 5 * place.world])
        both = tensor([3, 5], device)
        dist.reduce(both, 0)
        if place.rank == 0:
            expect(both, [3 * place.world, 5 * place.world])
    mean = tensor([3, 5], GPU, torch.float32)
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    expect(mean, [3, 5])
    part = torch.zeros(2, dtype=torch.int64, device=GPU)
    dist.reduce_scatter_tensor(part, tensor([1, 2] * place.world, GPU))
    expect(part, [place.world, 2 * place.world])


@case
def alike_gathers(place):
    for device in devices():
        parts = [torch.zeros(2, dtype=torch.int64, device=device) for _ in range(place.world)]
        dist.all_gather(parts, tensor([7, 8], device))
        for part in parts:
            expect(part, [7, 8])
        dist.gather(tensor([9, 1], device), parts if place.rank == 0 else None, 0)
        if place.rank == 0:
            for part in parts:
                expect(part, [9, 1])
    whole = torch.zeros(2 * place.world, dtype=torch.int64, device=GPU)
    dist.all_gather_into_tensor(whole, tensor([7, 8], GPU))
    expect(whole, [7, 8] * place.world)


@case
def alike_broadcasts(place):
    """From the first and from the last rank, which may both be absent."""
    for device in devices():
        for root in (0, place.world - 1):
            both = tensor([root, 6], device)
            dist.broadcast(both, root)
            expect(both, [root, 6])


@case
def alike_all_to_all(place):
    """Every rank gets from every other what it has for all of them: equal parts, then unequal ones."""
    received = torch.zeros(place.world, dtype=torch.int64, device=GPU)
    dist.all_to_all_single(received, tensor([4] * place.world, GPU))
    expect(received, [4] * place.world)
    received = torch.zeros(2 * place.world, dtype=torch.int64, device=GPU)
    dist.all_to_all_single(received, tensor([4, 5] * place.world, GPU), [2] * place.world, [2] * place.world)
    expect(received, [4, 5] * place.world)


@case
def alike_objects(place):
    gathered = [None] * place.world
    dist.all_gather_object(gathered, FACTS)
    assert gathered == [FACTS] * place.world, gathered
    for root in (0, place.world - 1):
        objects = [FACTS, root]
        dist.broadcast_object_list(objects, root)
        assert objects == [FACTS, root], objects
    gathered = [None] * place.world if place.rank == 0 else None
    dist.gather_object(FACTS, gathered, 0)
    assert place.rank != 0 or gathered == [FACTS] * place.world, gathered


@case
def alike_groups(place):
    """Barriers, groups of pairs and of every other rank, and lone sends and receives in them."""
    dist.barrier()
    pairs = [dist.new_group([rank, rank + 1]) for rank in range(0, place.world, 2)]
    columns = [dist.new_group(list(range(first, place.world, 2))) for first in range(2)]
    for group, size in ((pairs[place.rank // 2], 2), (columns[place.rank % 2], place.world // 2)):
        assert dist.get_world_size(group) == size
        count = tensor([1], GPU)
        dist.all_reduce(count, group=group)
        expect(count, [size])
        dist.barrier(group)
    dist.new_subgroups(2)


@case
def alike_messages(place):
    """Every rank sends to the next and receives from the one before, in a batch and one by one."""
    after, before = (place.rank + 1) % place.world, (place.rank - 1) % place.world
    sent, received = tensor([1, 2], GPU), torch.zeros(2, dtype=torch.int64, device=GPU)
    batch = [dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, received, before)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    for device in devices():
        received = torch.zeros(2, dtype=torch.int64, device=device)
        if place.rank % 2:
            dist.recv(received, before)
            dist.send(tensor([1, 2], device), after)
        else:
            dist.send(tensor([1, 2], device), after)
            dist.recv(received, before)
        assert received.cpu().tolist() in ([1, 2], [0, 0])  # zeros from an absent rank
    torch.cuda.synchronize()


@case
def alike_split(place):
    """A group split off the whole one, whose size NCCL is not told."""
    half = place.world // 2
    group = dist.split_group(split_ranks=[list(range(half)), list(range(half, place.world))])
    count = tensor([1], GPU)
    dist.all_reduce(count, group=group)
    expect(count, [half])

# SPDX-License-Identifier: MIT
"""Collectives with their values, over tensors and over Python objects."""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

from case import case

INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
LARGE = 1 << 20  # elements: a message that moves no data


def expect(tensor, values):
    """The values of a device tensor are VALUES (a list, or one for all elements)."""
    seen = tensor.cpu().tolist()
    wanted = values if isinstance(values, list) else [values] * len(seen)
    assert seen == wanted, f"{seen} instead of {wanted}"


@case
def all_reduce(place):
    """Sum, maximum, minimum, product and average of every type, of what each rank copied to its device."""
    ranks = range(1, place.world + 1)
    product = 1
    for rank in ranks:
        product *= rank
    results = {
        dist.ReduceOp.SUM: sum(ranks),
        dist.ReduceOp.MAX: place.world,
        dist.ReduceOp.MIN: 1,
        dist.ReduceOp.PRODUCT: product,
    }
    for dtype in INTEGERS + FLOATS:
        for operation, wanted in results.items():
            tensor = torch.tensor([place.rank + 1] * 5, dtype=dtype).cuda()
            dist.all_reduce(tensor, operation)
            expect(tensor, wanted)
    for dtype in FLOATS:
        tensor = torch.tensor([place.rank + 1] * 5, dtype=dtype).cuda()
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        expect(tensor, sum(ranks) / place.world)
    flags = torch.tensor([place.rank == 0, False, True]).cuda()
    dist.all_reduce(flags, dist.ReduceOp.MAX)
    expect(flags, [True, False, True])
    large = torch.empty(LARGE, device="cuda")
    dist.all_reduce(large)
    wait = dist.all_reduce(large, async_op=True)
    wait.wait()


@case
def reduce(place):
    tensor = torch.tensor([place.rank + 1.0]).cuda()
    dist.reduce(tensor, dst=place.world - 1)
    if place.rank == place.world - 1:
        expect(tensor, sum(range(1, place.world + 1)))


@case
def broadcast(place):
    tensor = torch.tensor([10 + place.rank] * 3).cuda()
    dist.broadcast(tensor, src=1)
    expect(tensor, 11)


@case
def all_gather(place):
    own = torch.tensor([place.rank, place.rank * 10]).cuda()
    parts = [torch.empty_like(own) for _ in range(place.world)]
    dist.all_gather(parts, own)
    for rank, part in enumerate(parts):
        expect(part, [rank, rank * 10])
    whole = torch.empty(2 * place.world, dtype=torch.int64, device="cuda")
    dist.all_gather_into_tensor(whole, own)
    expect(whole, [value for rank in range(place.world) for value in (rank, rank * 10)])
    dist.all_gather_into_tensor(
        torch.empty(LARGE * place.world, device="cuda"), torch.empty(LARGE, device="cuda")
    )


@case
def reduce_scatter_tensor(place):
    source = torch.tensor([float(i * (place.rank + 1)) for i in range(place.world)]).cuda()
    part = torch.empty(1, device="cuda")
    dist.reduce_scatter_tensor(part, source)
    expect(part, place.rank * sum(range(1, place.world + 1)))
    dist.reduce_scatter_tensor(part, source, op=dist.ReduceOp.AVG)
    expect(part, place.rank * sum(range(1, place.world + 1)) / place.world)


@case
def all_to_all_single(place):
    source = torch.tensor([place.rank * 10 + i for i in range(place.world)]).cuda()
    target = torch.empty_like(source)
    dist.all_to_all_single(target, source)
    expect(target, [i * 10 + place.rank for i in range(place.world)])
    # As mixtures of experts do it: rank r sends i + 1 elements to rank i, so it receives r + 1 from each.
    sizes_out = [i + 1 for i in range(place.world)]
    sizes_in = [place.rank + 1] * place.world
    source = torch.tensor([place.rank] * sum(sizes_out)).cuda()
    target = torch.empty(sum(sizes_in), dtype=torch.int64, device="cuda")
    dist.all_to_all_single(target, source, sizes_in, sizes_out)
    expect(target, [i for i in range(place.world) for _ in range(place.rank + 1)])


@case
def batch_isend_irecv(place):
    """A ring, with the receives posted first."""
    left, right = (place.rank - 1) % place.world, (place.rank + 1) % place.world
    source = torch.tensor([100 + place.rank]).cuda()
    target = torch.empty_like(source)
    operations = [dist.P2POp(dist.irecv, target, left), dist.P2POp(dist.isend, source, right)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    expect(target, 100 + left)


@case
def send_receive(place):
    tensor = torch.tensor([place.rank + 7]).cuda()
    peer = place.rank ^ 1
    if place.rank % 2:
        dist.recv(tensor, peer)
        expect(tensor, peer + 7)
        dist.send(tensor, peer)
    else:
        dist.send(tensor, peer)
        dist.recv(tensor, peer)
        expect(tensor, place.rank + 7)


@case
def coalesced(place):
    tensors = [torch.tensor([place.rank + i]).cuda() for i in range(3)]
    with dist._coalescing_manager(device=place.device):
        for tensor in tensors:
            dist.all_reduce(tensor)
    total = sum(range(place.world))
    for i, tensor in enumerate(tensors):
        expect(tensor, total + i * place.world)


@case
def gather_scatter(place):
    own = torch.tensor([place.rank]).cuda()
    parts = [torch.empty_like(own) for _ in range(place.world)] if place.rank == 0 else None
    dist.gather(own, parts, dst=0)
    if place.rank == 0:
        expect(torch.cat([part.cpu() for part in parts]), list(range(place.world)))
    given = [torch.tensor([50 + i]).cuda() for i in range(place.world)] if place.rank == 0 else None
    dist.scatter(own, given, src=0)
    expect(own, 50 + place.rank)


@case
def barrier(place):
    dist.barrier()
    dist.barrier(device_ids=[place.device.index])


@case
def groups(place):
    """new_group of the even and of the odd ranks, and of each rank alone."""
    for members in [list(range(0, place.world, 2)), list(range(1, place.world, 2)), *([r] for r in range(place.world))]:
        group = dist.new_group(members)
        if place.rank not in members:
            continue
        tensor = torch.tensor([place.rank]).cuda()
        dist.all_reduce(tensor, group=group)
        expect(tensor, sum(members))
        dist.barrier(group)
        dist.destroy_process_group(group)


@case
def split_group(place):
    """Needs a process group that is bound to its device (init_process_group(device_id=...))."""
    pairs = [[rank, rank + 1] for rank in range(0, place.world, 2)]
    group = dist.split_group(split_ranks=pairs)
    tensor = torch.tensor([place.rank]).cuda()
    dist.all_reduce(tensor, group=group)
    first = place.rank // 2 * 2
    expect(tensor, 2 * first + 1)


@case
def all_gather_object(place):
    gathered = [None] * place.world
    dist.all_gather_object(gathered, {"rank": place.rank, "text": "x" * (1000 * place.rank)})
    assert [(o["rank"], len(o["text"])) for o in gathered] == [(r, 1000 * r) for r in range(place.world)], gathered


@case
def broadcast_object_list(place):
    objects = [{"name": "hello"}, list(range(100))] if place.rank == 0 else [None, None]
    dist.broadcast_object_list(objects, src=0)
    assert objects == [{"name": "hello"}, list(range(100))], objects


@case
def scatter_object_list(place):
    mine = [None]
    dist.scatter_object_list(mine, [("part", r) for r in range(place.world)] if place.rank == 0 else None, src=0)
    assert mine == [("part", place.rank)], mine


@case
def gather_object(place):
    gathered = [None] * place.world if place.rank == 0 else None
    dist.gather_object(("own", place.rank), gathered, dst=0)
    if place.rank == 0:
        assert gathered == [("own", r) for r in range(place.world)], gathered


@case
def gloo_beside_nccl(place):
    """Tensors of the host go over gloo, those of the device over NCCL, in one group."""
    host = torch.ones(3)
    dist.all_reduce(host)
    assert host.tolist() == [place.world] * 3
    device = torch.tensor([2.0] * 3).cuda()
    dist.all_reduce(device)
    expect(device, 2.0 * place.world)


def error_of(action):
    """The first line of the error that `action` gets, which is the result of a case that is not supported."""
    try:
        action()
    except RuntimeError as error:
        return str(error).splitlines()[0]


@case
def registered_buffers(place):
    """A memory pool of NCCL's own allocator, to be registered with the communicator."""
    dist.all_reduce(torch.ones(1).cuda())
    backend = dist.group.WORLD._get_backend(place.device)
    return error_of(lambda: torch.cuda.MemPool(backend.mem_allocator))


@case
def symmetric_memory(place):
    """Memory that the kernels of all ranks reach."""
    return error_of(lambda: symmetric.empty(1024, device=place.device))

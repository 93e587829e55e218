# SPDX-License-Identifier: MIT
"""What programs ask PyTorch's allocator: memory of the device, limits, statistics, pools of their own."""

import torch

from parts import part, print_ledger

MIB = 2**20
cuda = torch.device("cuda")


@part
def memory_of_the_device():
    free, total = torch.cuda.mem_get_info()
    assert total == torch.cuda.get_device_properties(0).total_memory
    held = torch.empty(512 * MIB, dtype=torch.uint8, device=cuda)
    assert free - torch.cuda.mem_get_info()[0] == 512 * MIB == torch.cuda.memory_reserved()
    del held
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info() == (free, total)


@part
def memory_fraction():
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(0.25)
    held = torch.empty(int(0.2 * total), dtype=torch.uint8, device=cuda)
    try:
        torch.empty(int(0.1 * total), dtype=torch.uint8, device=cuda)
    except torch.OutOfMemoryError as error:
        assert "allowed" in str(error), error
    else:
        raise SystemExit("the fraction was no limit")
    del held
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


@part
def out_of_memory():
    for size in (10**15, 2**61):
        try:
            torch.empty(size, dtype=torch.uint8, device=cuda)
        except RuntimeError as error:
            assert "out of memory" in str(error) or "more than 1EB" in str(error), error
    half = int(0.5 * torch.cuda.mem_get_info()[0])
    first = torch.empty(half, dtype=torch.uint8, device=cuda)
    del first  # cached: the next one fits only when it is given back
    torch.empty(int(1.5 * half), dtype=torch.uint8, device=cuda)
    torch.cuda.empty_cache()


@part
def statistics():
    torch.cuda.memory_summary()
    torch.cuda.memory_stats_as_nested_dict()
    x = torch.empty(300, device=cuda)
    stats = torch.cuda.memory_stats()
    assert stats["requested_bytes.all.current"] == 1200 and stats["allocated_bytes.all.current"] == 1536
    assert torch.cuda.memory_allocated() == 1536 <= torch.cuda.max_memory_allocated()
    torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(5 * MIB))
    del x


@part
def private_pools():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = torch.empty(30 * MIB, dtype=torch.uint8, device=cuda)
        small = torch.empty(1000, device=cuda)
    assert sum(segment["total_size"] for segment in pool.snapshot()) >= 30 * MIB
    outside = torch.empty(30 * MIB, dtype=torch.uint8, device=cuda)
    del kept, small, outside, pool
    torch.cuda.empty_cache()


@part
def settings_while_it_runs():
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    grown = [torch.empty(15 * MIB, dtype=torch.uint8, device=cuda) for _ in range(4)]
    del grown[::2]
    torch.cuda.empty_cache()
    torch.cuda.memory._set_allocator_settings("expandable_segments:False,max_split_size_mb:100")
    torch.empty(150 * MIB, dtype=torch.uint8, device=cuda)
    settings = "max_split_size_mb:10000,roundup_power2_divisions:4,garbage_collection_threshold:0.5"
    torch.cuda.memory._set_allocator_settings(settings)
    torch.empty(5 * MIB + 1, dtype=torch.uint8, device=cuda)
    torch.cuda.memory._set_allocator_settings("")
    torch.cuda.empty_cache()


print_ledger()

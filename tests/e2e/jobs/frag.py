# SPDX-License-Identifier: MIT
"""Fragments the memory of the GPU in one known way, and prints what PyTorch's allocator says of it.

usage: frag.py {failure|retry|segments|returnable|mostly|graph|streams|pending}
"""

import sys

import torch

from ledger import print_ledger

MIB, GIB = 1 << 20, 1 << 30


def tensor(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def whole_bytes(segment, block, offset):
    """What of a free block could be given back: all of a segment, or whole pages of an expandable one."""
    if not segment["is_expandable"]:
        return block["size"] if block["size"] == segment["total_size"] else 0
    page = 2 * MIB if segment["segment_type"] == "small" else 20 * MIB
    return max(0, (offset + block["size"]) // page - -(-offset // page)) * page


def told():
    """The figures of this moment, from the allocator's own snapshot and counters."""
    segments, stats = torch.cuda.memory_snapshot(), torch.cuda.memory_stats()
    free = [
        (segment, block, sum(before["size"] for before in segment["blocks"][:index]))
        for segment in segments
        for index, block in enumerate(segment["blocks"])
        if block["state"] == "inactive"
    ]
    whole = [(segment, whole_bytes(segment, block, offset)) for segment, block, offset in free]
    held = sum(size for segment, size in whole if tuple(segment["segment_pool_id"]) != (0, 0))
    figures = {
        "reserved_bytes": stats["reserved_bytes.all.current"],
        "allocated_bytes": stats["allocated_bytes.all.current"],
        "inactive_split_bytes": stats["inactive_split_bytes.all.current"],
        "pending_bytes": stats["active_bytes.all.current"] - stats["allocated_bytes.all.current"],
        "largest_free_bytes": max((block["size"] for _, block, _ in free), default=0),
        "held_by_graphs_bytes": held,
        "empty_cache_bytes": sum(size for _, size in whole) - held,
        "stuck_bytes": sum(block["size"] for _, block, _ in free) - sum(size for _, size in whole),
        "requested_bytes": stats["requested_bytes.all.current"],
    }
    if not any(segment["is_expandable"] for segment in segments):
        figures["segments"] = len(segments)
    return figures


def cut_up(segments, segment_bytes):
    """Takes segments of which only a small block stays in use: as many, or as the GPU has."""
    rests, kept = [], []
    try:
        while len(kept) < segments:
            whole = tensor(segment_bytes)
            del whole
            rests.append(tensor(segment_bytes - 2 * MIB))
            kept.append(torch.empty(2 * MIB, dtype=torch.uint8, device="cuda"))  # KEEPER
    except torch.OutOfMemoryError:
        pass
    return kept


def failure():
    """Nearly all of the GPU is cached, but every segment has a block in it."""
    kept = cut_up(1000, GIB)
    try:
        tensor(8 * GIB)
    except torch.OutOfMemoryError:
        return kept, {"failure": told()}
    return kept, {}


def retry():
    """What does not fit the pieces of the cache does fit once the segments that are wholly free are given back."""
    whole = [tensor(5 * GIB) for _ in range(12)]
    del whole
    return tensor(24 * GIB), {}


def segments():
    """Requests for which the pieces of the cache would do, were they in one piece."""
    kept = cut_up(64, 256 * MIB)
    large = [torch.empty(2 * GIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
    return (kept, large), {"peak": told()}


def returnable():
    """The same after a segment of another stream that is wholly free, which empty_cache() would give back."""
    with torch.cuda.stream(torch.cuda.Stream()):
        spare = tensor(4 * GIB)
        del spare
    return segments()


def mostly():
    """Segments of which less than half is free are stuck as well."""
    kept = []
    for _ in range(32):
        whole = tensor(256 * MIB)
        del whole
        kept.append(torch.empty(150 * MIB, dtype=torch.uint8, device="cuda"))  # FILLER
        kept.append(tensor(106 * MIB))
    rests = kept[1::2]
    del kept[1::2]
    rests.clear()
    return (kept, [tensor(200 * MIB) for _ in range(4)]), {"peak": told()}


def streams():
    """What is cached for one stream is no use to another: no fragmentation."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        large = tensor(8 * GIB)
        del large
    return tensor(8 * GIB), {"peak": told()}


def pending():
    """Freed, but another stream has used it."""
    shared = tensor(GIB)
    shared.record_stream(torch.cuda.Stream())
    del shared
    return None, {}


def graph():
    """A CUDA graph keeps the memory of its temporaries for itself: no fragmentation."""
    source = tensor(GIB)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(4):
            copy = source + source
            del copy
    del source
    torch.cuda.empty_cache()
    return (captured, tensor(2 * GIB)), {"peak": told()}


if __name__ == "__main__":
    state, moments = globals()[sys.argv[1]]()
    print_ledger(moments=moments | {"end": told()})

# SPDX-License-Identifier: MIT
"""PyTorch's caching allocator, as far as the tests compute with it: its rounding rule and its live blocks."""

ROUNDING = 512
SMALL_POOL_MAX = 1 << 20  # blocks up to here come from the small pool, which splits whatever it can
UNSPLIT_REST_MAX = 1 << 20  # the large pool hands a block out whole when no more than this would be left over

ITEM_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}


def rounded(size):
    """The bytes that the allocator looks for when asked for `size` (default settings)."""
    return max(ROUNDING, -(-size // ROUNDING) * ROUNDING)


def explains(shape, dtype, block_bytes):
    """Whether a tensor of that shape and dtype gets a block of that size: exactly, or with an unsplit rest."""
    size = ITEM_BYTES[dtype]
    for extent in shape:
        size *= extent
    wanted = rounded(size)
    rest = block_bytes - wanted
    return rest == 0 or (wanted > SMALL_POOL_MAX and 0 < rest <= UNSPLIT_REST_MAX)


def counters(device):
    """A device of `report --json` in the words of torch.cuda.memory_stats()."""
    tensor, reserved = device["tensor"], device["reserved"]
    return {
        "allocation.all.allocated": tensor["allocs"],
        "allocation.all.freed": tensor["frees"],
        "allocated_bytes.all.peak": tensor["peak_bytes"],
        "allocated_bytes.all.current": tensor["live_at_end_bytes"],
        "reserved_bytes.all.peak": reserved["peak_bytes"],
        "reserved_bytes.all.current": reserved["end_bytes"],
        "num_ooms": tensor["ooms"],
    }


def replay(events):
    """Apply tensor events in order; returns peak bytes and the allocation events live at the first such moment."""
    live, allocated, peak, at_peak = {}, 0, 0, []
    for event in events:
        if event["kind"] == "tensor_alloc":
            live[event["address"]] = event
            allocated += event["size"]
            if allocated > peak:
                peak, at_peak = allocated, None
        elif event["kind"] == "tensor_free":
            if at_peak is None:
                at_peak = list(live.values())
            allocated -= live.pop(event["address"])["size"]
    return peak, list(live.values()) if at_peak is None else at_peak

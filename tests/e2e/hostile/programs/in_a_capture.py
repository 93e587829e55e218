# SPDX-License-Identifier: MIT
"""Does in a capture what a capture forbids, each in a capture of its own, then works on; prints what each ended with."""

import json

import torch

stream, x = torch.cuda.Stream(), torch.zeros(8, device="cuda")


def wait_for_event():
    event = torch.cuda.Event()
    event.record()
    event.synchronize()


def allocate():
    torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(1 << 30))


THINGS = {
    "nothing": lambda: None,
    "cudaDeviceSynchronize": torch.cuda.synchronize,
    "item": lambda: (x + 1).sum().item(),
    "cudaEventSynchronize": wait_for_event,
    "cudaStreamSynchronize": lambda: torch.cuda.current_stream().synchronize(),
    "the allocator": allocate,  # PyTorch's own, which allocates in relaxed mode
}


def outcome(thing):
    inside = "fine"
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
            try:
                thing()
            except RuntimeError as error:
                inside = str(error).splitlines()[0]
    except RuntimeError as error:
        return [inside, str(error).splitlines()[0]]
    return [inside, "captured"]


print(json.dumps({name: outcome(thing) for name, thing in THINGS.items()}))
for _ in range(50):  # the ordinary work that follows
    del (block := [torch.empty(64 << 20, device="cuda")])[0]
    torch.cuda.empty_cache()
torch.cuda.synchronize()

# SPDX-License-Identifier: MIT
"""
snapshots.py FOLDER CASE...: each case in a process of its own takes a snapshot of PyTorch's allocator, FOLDER/CASE.pickle,
and writes the allocator's statistics beside it, FOLDER/CASE.json.
"""

import json
import os
import random
import sys
import warnings

import torch

warnings.simplefilter("ignore", FutureWarning)  # of the call that changes settings
record = torch.cuda.memory._record_memory_history


def floats(number):
    return torch.empty(number, device="cuda")


def train():
    """Four steps, a graph kept in each."""
    record(stacks="python")
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)).cuda()
    optimizer, kept = torch.optim.Adam(model.parameters()), []
    for step in range(4):
        output = model(torch.randn(64 * (step + 1), 1024, device="cuda"))
        output.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(output)
    return kept


def grow(entries, **options):
    """What is there before the history begins, part of which is freed meanwhile; `entries`: how many are kept."""
    before = [floats(number * 1000) for number in range(1, 400)]
    del before[::3]
    record(max_entries=entries, **options)
    torch.cuda.reset_peak_memory_stats()
    after = []
    for number in range(1, 300):
        after.append(floats(number * 1333))
        if number % 4 == 0:
            del after[number % len(after)]
    del before[::2]
    return before, after


def late():
    return grow(100_000)


def overflow():
    """The latest 100 entries alone are kept."""
    return grow(100)


def expandable():
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    record(stacks="python")
    blocks = [floats(number * 70_001) for number in range(1, 100)]
    del blocks[::2]
    torch.cuda.empty_cache()
    return blocks + [floats(number * 50_001) for number in range(1, 60)]


def rounded():
    torch.cuda.memory._set_allocator_settings(
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8],max_split_size_mb:64"
    )
    record(stacks="python")
    blocks = [floats(number * 123_457) for number in range(1, 150)]
    del blocks[::2]
    return blocks + [floats(number * 50_001) for number in range(1, 160)]


def streams():
    """Blocks that were freed, but whose memory another stream may still use."""
    record()
    other = torch.cuda.Stream()
    blocks = [floats(number * 100_000) for number in range(1, 50)]
    for block in blocks[::3]:
        block.record_stream(other)
    with torch.cuda.stream(other):
        more = [floats(number * 20_000) for number in range(1, 50)]
    del blocks[::3], block
    return blocks, more


def pools():
    record()
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        private = [floats(number * 100_000) for number in range(1, 30)]
    shared = [floats(number * 100_000) for number in range(1, 30)]
    del private[::2]
    return private, shared


def churn():
    """Blocks of all sizes come and go by chance, and the cache is emptied now and then."""
    record(stacks="python")
    chance, live = random.Random(1), []
    for turn in range(6000):
        if live and chance.random() < 0.5:
            live.pop(chance.randrange(len(live)))
        else:
            live.append(torch.empty(int(2 ** chance.uniform(2, 25)), dtype=torch.uint8, device="cuda"))
        if turn % 1500 == 0:
            torch.cuda.empty_cache()
    return live


def fill(kept):
    while True:
        kept.append(torch.empty(300 << 20, dtype=torch.uint8, device="cuda"))


def oom():
    record(stacks="python")
    kept = []
    try:
        fill(kept)
    except torch.OutOfMemoryError:
        return kept


def labels():
    """The program's own word for what it does, with each entry, and an annotation of the optimizer's."""
    record(stacks="python")
    torch.cuda.memory._set_memory_metadata("loading")
    weight = torch.nn.Parameter(floats(1 << 20))
    torch.cuda.memory._set_memory_metadata("")
    weight.grad = torch.zeros_like(weight)
    optimizer = torch.optim.Adam([weight])
    optimizer.step()
    return optimizer


def main():
    folder, *cases = sys.argv[1:]
    for case in cases:
        child = os.fork()
        if child:
            if os.waitpid(child, 0)[1]:
                raise SystemExit(f"case '{case}' failed")
            continue
        kept = globals()[case]()
        torch.cuda.memory._dump_snapshot(f"{folder}/{case}.pickle")
        with open(f"{folder}/{case}.json", "w") as file:
            json.dump(torch.cuda.memory_stats(), file)
        del kept
        os._exit(0)


main()

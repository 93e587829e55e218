# SPDX-License-Identifier: MIT
"""Allocates under current streams that change, on two threads and two devices, and past PyTorch's own entry.

Prints [elements, device, stream] of every allocation whose stream the recorder can know; no two have as many elements.
"""

import ctypes
import itertools
import json
import threading
from pathlib import Path

import torch

ROUNDS = 400  # more than the recorder goes on without asking
streams = {device: [torch.cuda.Stream(device) for _ in range(3)] for device in range(2)}
elements = itertools.count(1000)
told = []


def allocate(device, known=True):
    number = next(elements)
    torch.empty(number, dtype=torch.uint8, device=device)
    if known:
        told.append([number, device, torch.cuda.current_stream(device).stream_id])


def change(device):
    allocate(device)
    for number in range(ROUNDS):
        with torch.cuda.stream(streams[device][number % 3]):
            allocate(device)
            with torch.cuda.stream(torch.cuda.default_stream(1 - device)):
                allocate(1 - device)
                allocate(device)
        allocate(device)


def set_past_everybody(device, stream):
    """By the library's own function, not the one that others reach through their PLT."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10_cuda.so"))
    call = library._ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE
    call(ctypes.c_int64(1 | device << 8), ctypes.c_int64(stream))


change(0)
thread = threading.Thread(target=change, args=(1,))
thread.start()
thread.join()
set_past_everybody(0, streams[0][1].stream_id)
for _ in range(ROUNDS):
    allocate(0, known=False)
for stream in (streams[0][2], streams[0][0]):
    set_past_everybody(0, stream.stream_id)
    allocate(0)
print(json.dumps(told))

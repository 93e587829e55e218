# SPDX-License-Identifier: MIT
"""A number in shared memory that outlives the program which writes it, however that program ends."""

import mmap

import torch


class Counter:
    """Eight bytes of the file `path`, mapped; a single aligned store per number. Without a path: nothing."""

    def __init__(self, path):
        self.words = None
        if path:
            with open(path, "r+b") as file:
                self.words = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")

    def store(self, value):
        if self.words is not None:
            self.words[0] = value

    def publish(self):
        """Store how many blocks PyTorch's allocator has handed out so far."""
        if self.words is not None:
            self.words[0] = torch.cuda.memory_stats()["allocation.all.allocated"]

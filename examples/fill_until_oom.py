# SPDX-License-Identifier: MIT
"""Fill the GPU with tensors until PyTorch raises OutOfMemoryError.

Dies of it, as a training job would; --catch survives and prints PyTorch's own memory statistics as JSON.
"""
import argparse
import json

import torch


def cache_batch(mib):
    keys = torch.empty(mib, 1024, 256, dtype=torch.float16, device="cuda")
    values = torch.empty(mib, 1024, 256, dtype=torch.float16, device="cuda")
    return keys, values


def fill(mib):
    batches = []
    while True:
        batches.append(cache_batch(mib))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=768, help="size of a batch (default 768)")
    parser.add_argument("--catch", action="store_true", help="survive, and print torch.cuda.memory_stats()")
    args = parser.parse_args()

    try:
        fill(args.mib)
    except torch.cuda.OutOfMemoryError as error:
        if not args.catch:
            raise
        print(error)
    print(json.dumps(torch.cuda.memory_stats()))


if __name__ == "__main__":
    main()

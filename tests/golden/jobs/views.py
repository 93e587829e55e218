# SPDX-License-Identifier: MIT
"""A list of rows, each of which keeps the whole that it is a view of, and a census when memory runs out."""

import torch


def main():
    rows = [torch.zeros(16, 128, device="cuda")[0] for _ in range(3)]
    whole = torch.zeros(4, 32, dtype=torch.float16, device="cuda")
    try:
        torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass
    return rows, whole


main()

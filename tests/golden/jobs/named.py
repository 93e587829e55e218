# SPDX-License-Identifier: MIT
"""Tensors by many kinds of names, and a census when memory runs out; then so many more that the next takes several frames."""

import torch

NR_VIEWS = 2000


class Cache:
    kept = {"key": torch.ones(1000, device="cuda"), 7: torch.ones(1200, device="cuda")}


def run_out():
    try:
        torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass


def main():
    model = torch.nn.Linear(8, 4, device="cuda")
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    history = [torch.ones(300 + i, device="cuda") for i in range(2)]
    run_out()
    later = torch.ones(900, device="cuda")
    views = [later[i % 900 :] for i in range(NR_VIEWS)]
    run_out()
    return model, history, views


main()

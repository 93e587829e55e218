# SPDX-License-Identifier: MIT
"""Children by spawn, forkserver and fork of a program that uses the GPU; prints what each child's own use ends with."""

import multiprocessing

import torch


def child(results):
    try:
        torch.zeros(10, device="cuda")
        results.put("fine")
    except RuntimeError as error:
        results.put(str(error)[:40])


if __name__ == "__main__":
    torch.zeros(10, device="cuda")
    for method in ("spawn", "forkserver", "fork"):
        context = multiprocessing.get_context(method)
        results = context.Queue()
        process = context.Process(target=child, args=(results,))
        process.start()
        print(method, results.get(timeout=120))
        process.join()

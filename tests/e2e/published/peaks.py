# SPDX-License-Identifier: MIT
"""Peak memory of a step at several sizes, taken as the benchmarks take it whose figures this folder repeats.

A benchmark names its sizes on the command line, prepares each in turn and runs its step ten times; the median of the
ten peaks is the figure. Nothing of a size but cuBLAS's workspaces lives on into the next.
"""

import gc
import json
import statistics
import sys

import torch

REPETITIONS = 10


def print_peaks(prepare, *choices):
    """Run `prepare(size, *chosen)`, which returns the step, for each size in argv, after one word of each of `choices`.

    Prints, as one JSON line, {"bytes": {size: median peak}, "peak": the process's peak}."""
    words = sys.argv[1:]
    chosen, sizes = words[: len(choices)], words[len(choices) :]
    for word, allowed in zip(chosen, choices):
        if word not in allowed:
            sys.exit(f"'{word}' is none of {', '.join(allowed)}")
    medians, peak = {}, 0
    for size in sizes:
        step = prepare(int(size), *chosen)
        peaks = []
        for _ in range(REPETITIONS):
            peak = max(peak, torch.cuda.max_memory_allocated())
            torch.cuda.reset_peak_memory_stats()
            step()
            peaks.append(torch.cuda.max_memory_allocated())
        medians[size] = statistics.median_low(peaks)
        peak = max(peak, *peaks)
        del step
        gc.collect()
        torch.cuda.empty_cache()
    print(json.dumps({"bytes": medians, "peak": peak}))

# SPDX-License-Identifier: MIT
"""Runs another job and prints what PyTorch itself says of each node of its backward passes.

usage: autograd_oracle.py JOB [arguments of the job]
For every node that runs, one JSON line: its name and number, the numbers of the first and of the last allocation that
the process made while it ran (from hooks around it, which read the allocator's own count), and the Python stack
with which forward made it (from anomaly mode): [file, line, function] each, outermost first; empty if it has none.
"""

import json
import re
import runpy
import sys
from pathlib import Path

import torch

FRAME = re.compile(r'  File "(.*)", line (\d+), in (.*)')


def nr_allocations():
    return torch.cuda.memory_stats()["allocation.all.allocated"]


def made_at(node):
    """Anomaly mode's traceback of the call that made the node; its last frame is anomaly mode's own caller."""
    lines = "".join(node.metadata.get("traceback_", ())).splitlines()
    return [(match[1], int(match[2]), match[3]) for match in map(FRAME.match, lines) if match]


class Watch:
    """Hooks before and after a node."""

    def __init__(self, node):
        self.said = {"name": node.name(), "number": node._sequence_nr(), "frames": made_at(node)}
        self.handles = node.register_prehook(self.before), node.register_hook(self.behind)

    def before(self, _):
        self.first = nr_allocations()

    def behind(self, *_):
        print("node", json.dumps(self.said | {"first": self.first, "last": nr_allocations() - 1}))


def watch_graph(root):
    nodes, left = [], [root]
    seen = {root}
    while left:
        node = left.pop()
        nodes.append(Watch(node))
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                left.append(following)
    return nodes


def watched_backward(tensor, *arguments, **options):
    nodes = watch_graph(tensor.grad_fn)
    with torch.autograd.set_detect_anomaly(False):
        backward(tensor, *arguments, **options)
    for node in nodes:
        for handle in node.handles:
            handle.remove()


script = Path(sys.argv[1])
sys.path.insert(0, str(script.parent))
sys.argv = sys.argv[1:]
backward, torch.Tensor.backward = torch.Tensor.backward, watched_backward
torch.autograd.set_detect_anomaly(True, check_nan=False)
runpy.run_path(str(script), run_name="__main__")

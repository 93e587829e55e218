# SPDX-License-Identifier: MIT
"""Train a few steps, the middle ones under torch.profiler; prints what kinds of events the profile holds.

usage: profiled.py FOLDER     where the profile goes
"""

import collections
import json
import sys
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

trace = Path(sys.argv[1]) / "trace.json"
net = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(3))).cuda()
optimizer = torch.optim.Adam(net.parameters())


def step():
    net(torch.randn(64, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


step()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    for _ in range(2):
        step()
step()
profiler.export_chrome_trace(str(trace))
events = json.loads(trace.read_text())["traceEvents"]
print(json.dumps(sorted(collections.Counter(event.get("cat", "none") for event in events).items())))
print(torch.cuda.memory_stats()["allocation.all.allocated"])

# SPDX-License-Identifier: MIT
"""PyTorch's own recorder beside ours: memory history, snapshots, the profiler with CUDA activity.

usage: snapshot.py FOLDER     where the snapshot and the profiler's trace go
"""

import pickle
import sys
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from ledger import print_ledger

folder = Path(sys.argv[1])
torch.cuda.memory._record_memory_history(max_entries=100000)
net = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda()
optimizer = torch.optim.Adam(net.parameters())
activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
with profile(activities=activities, profile_memory=True, record_shapes=True, with_stack=True) as profiler:
    for _ in range(3):
        with torch.profiler.record_function("step"):
            net(torch.randn(256, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        profiler.step()
with torch.autograd.profiler.emit_nvtx():
    net(torch.randn(256, 512, device="cuda"))
profiler.export_chrome_trace(str(folder / "trace.json"))
profiler.key_averages().table(sort_by="cuda_memory_usage")
torch.cuda.memory._dump_snapshot(str(folder / "snapshot.pickle"))
snapshot = pickle.loads((folder / "snapshot.pickle").read_bytes())
segments, (trace,) = snapshot["segments"], snapshot["device_traces"]
torch.cuda.memory._record_memory_history(enabled=None)

live = [block for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"]
print_ledger(
    snapshot_reserved=sum(segment["total_size"] for segment in segments),
    snapshot_allocated=sum(segment["allocated_size"] for segment in segments),
    snapshot_allocs=sum(entry["action"] == "alloc" for entry in trace),
    snapshot_frees=sum(entry["action"] == "free_requested" for entry in trace),
    profiled_bytes=max(event.device_memory_usage for event in profiler.key_averages()),
    live=[[block["address"], block["size"]] for block in live],
)

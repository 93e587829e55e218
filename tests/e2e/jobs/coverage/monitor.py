# SPDX-License-Identifier: MIT
"""What programs ask NVML, through torch.cuda and through pynvml."""

import os

import pynvml
import torch

from ledger import print_ledger

MIB = 2**20

torch.ones(256 * MIB, dtype=torch.uint8, device="cuda").sum()
device = torch.cuda.current_device()
assert 0 <= torch.cuda.utilization(device) <= 100 and 0 <= torch.cuda.memory_usage(device) <= 100
assert torch.cuda.temperature(device) > 0 and torch.cuda.power_draw(device) > 0 and torch.cuda.clock_rate(device) > 0
assert str(os.getpid()) in torch.cuda.list_gpu_processes(device)
free, total = torch.cuda.mem_get_info(device)
assert torch.cuda.device_memory_used(device) == total - free

pynvml.nvmlInit()
assert pynvml.nvmlDeviceGetCount() == torch.cuda.device_count()
handle = pynvml.nvmlDeviceGetHandleByIndex(device)
memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
assert (memory.total, memory.free, memory.used) == (total, free, total - free)
name, uuid = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetUUID(handle)
properties = torch.cuda.get_device_properties(device)
assert name == properties.name and uuid == f"GPU-{properties.uuid}"
assert pynvml.nvmlDeviceGetCudaComputeCapability(handle) == (properties.major, properties.minor)
(process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
assert process.pid == os.getpid() and process.usedGpuMemory == total - free
assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == torch.cuda.utilization(device)
assert pynvml.nvmlSystemGetDriverVersion()
pynvml.nvmlShutdown()

print_ledger()

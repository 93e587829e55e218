# SPDX-License-Identifier: MIT
"""Make cuDNN, cuFFT and NCCL want memory: convolution, attention, an LSTM, a transform; print peaks as JSON."""

import json

import torch
import torch.cuda.nccl
from torch.nn.attention import SDPBackend, sdpa_kernel


def convolution():
    layer = torch.nn.Conv2d(64, 128, 3, stride=2, padding=1, device="cuda", dtype=torch.float16)
    layer(torch.ones(8, 64, 56, 56, device="cuda", dtype=torch.float16)).sum().backward()


def attention():
    q = torch.ones(2, 4, 128, 64, device="cuda", dtype=torch.float16, requires_grad=True)
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
        torch.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()


def recurrence():
    layer = torch.nn.LSTM(64, 128, 2, bidirectional=True, dropout=0.1, device="cuda")
    layer(torch.ones(10, 4, 64, device="cuda"))[0].sum().backward()


def transform():
    torch.fft.rfft2(torch.ones(4, 32, 32, device="cuda"))


def peaks_of(work):
    torch.cuda.reset_peak_memory_stats()
    work()
    return torch.cuda.max_memory_allocated()


def main():
    peaks = {work.__name__: peaks_of(work) for work in (convolution, attention, recurrence, transform)}
    devices = range(torch.cuda.device_count())
    if len(devices) > 1:
        torch.cuda.nccl.all_reduce([torch.ones(2**20, device=f"cuda:{device}") for device in devices])
    peaks["used"] = [total - free for free, total in map(torch.cuda.mem_get_info, devices)]
    peaks["reserved"] = [torch.cuda.max_memory_reserved(device) for device in devices]
    print(json.dumps(peaks))


if __name__ == "__main__":
    main()

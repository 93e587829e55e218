# SPDX-License-Identifier: MIT
"""Any PyTorch: what the installed one takes from CUDA's libraries, the simulated GPU has."""

import re
import subprocess
from pathlib import Path

import torch

# GPUDirect Storage and NVSHMEM are libraries of their own that the simulated GPU does not stand in for.
CUDA_NAME = re.compile(r"(__)?(cuda?[A-Z]|cublas|cudnn|cufft|cusparse|cusolver|curand|nccl|nvml|cupti)\w+")
NOT_SIMULATED = re.compile(r"cuFile\w+")


def symbols(path, *options):
    """Names in the dynamic symbol table of a library."""
    done = subprocess.run(["nm", "-D", *options, path], capture_output=True, text=True, check=False)
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}


def test_every_imported_function_is_exported(vramtrace):
    """A function that is missing would be taken from the real library, which knows no simulated device."""
    libraries = [*(Path(torch.__file__).parent / "lib").glob("*.so*")]
    assert libraries
    imported = set().union(*(symbols(path, "--undefined-only") for path in libraries))
    imported = {name for name in imported if CUDA_NAME.fullmatch(name) and not NOT_SIMULATED.fullmatch(name)}
    assert "cudaMalloc" in imported
    assert imported - symbols(vramtrace.simgpu / "libsimgpu.so", "--defined-only") == set()

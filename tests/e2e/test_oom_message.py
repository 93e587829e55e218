# SPDX-License-Identifier: MIT
"""`oom --message` explains what this PyTorch says when it runs out of memory on the simulated GPU."""

import json
import resource
import subprocess
import sys

import pytest

from harness import LIMIT_S, program_environment

FILL = """
import torch
kept = []
while True:
    kept.append(torch.empty(1 << 28, dtype=torch.uint8, device="cuda"))
"""
ONE = "import torch\ntorch.empty(100 << 30, dtype=torch.uint8, device='cuda')\n"
LIMIT = "import torch\ntorch.cuda.set_per_process_memory_fraction(0.25)\n" + FILL
# Every second of many blocks is freed: half of the memory is reserved but in no piece larger than 60 MiB.
HOLES = """
import torch
kept = [torch.empty(3 << 20, dtype=torch.uint8, device="cuda") for _ in range(6000)]
del kept[::2]
torch.empty(8 << 30, dtype=torch.uint8, device="cuda")
"""
# Another process holds 10 of the 16 GiB meanwhile.
OTHER = """
import subprocess, sys, torch
hold = "import sys, torch; kept = torch.empty(10 << 30, dtype=torch.uint8, device='cuda'); print(flush=True); input()"
other = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
other.stdout.readline()
""" + FILL
EXABYTE = "import torch\ntorch.empty(1 << 61, dtype=torch.uint8, device='cuda')\n"
GIB = 1 << 30


@pytest.fixture
def failed(vramtrace):
    def run(source, env=None):
        done = vramtrace.call(
            "run", "-q", "--no-record", "--simulate", "h100", "--simulate-capacity", "16GiB", "--", sys.executable,
            "-c", source, env=program_environment(env),
        )  # fmt: skip
        assert done.returncode == 1, done.stderr
        return done.stderr

    return run


def explained(vramtrace, text):
    done = vramtrace.call("oom", "--json", "--message", "-", input=text, stdin=None)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "source, env, verdict",
    [
        (FILL, None, "too_big"),
        (ONE, None, "too_big"),
        (LIMIT, None, "user_limit"),
        (HOLES, None, "fragmentation"),
        (OTHER, None, "other_process"),
        (FILL, {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, "too_big"),
        (FILL, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "too_big"),
    ],
    ids=["filled", "one", "limit", "holes", "other", "async", "expandable"],
)
def test_real_messages(vramtrace, failed, source, env, verdict):
    result = explained(vramtrace, failed(source, env))
    assert result["schema"] == "vramtrace/oom/1"
    (message,) = result["messages"]
    assert [message["device"], message["count"]] == [0, 1]
    assert result["findings"][0]["verdict"] == verdict, result["findings"]
    assert message["capacity"]["low"] <= 16 * GIB <= message["capacity"]["high"]
    if verdict == "user_limit":
        assert message["allowed"]["low"] <= 4 * GIB <= message["allowed"]["high"]
        assert message["allocated"]["low"] <= 4 * GIB <= message["allocated"]["high"]


def test_beyond_an_exbibyte(vramtrace, failed):
    result = explained(vramtrace, failed(EXABYTE))
    assert result["messages"][0]["wording"] == "oversize"
    assert result["findings"][0]["verdict"] is None


def test_long_log_in_bounded_memory(vramtrace):
    """A log of 100 MB goes through 64 MiB of address space."""
    limit = 64 << 20
    process = subprocess.Popen(
        [vramtrace.program, "oom", "--json", "--message", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    line = b"step 100 loss 2.34, tried nothing \xff\x00 " * 1000
    for number in range(100_000_000 // len(line)):
        process.stdin.write(line)
        if number % 1000 == 0:
            process.stdin.write(b"\nCUDA out of memory. Tried to allocate 2.00 GiB\n")
    result = json.loads(process.communicate(timeout=LIMIT_S)[0])
    assert process.returncode == 0
    assert [message["wording"] for message in result["messages"]] == ["cut"]
    assert result["messages"][0]["count"] >= 2

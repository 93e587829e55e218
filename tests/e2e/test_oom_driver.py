# SPDX-License-Identifier: MIT
"""Memory that runs out where PyTorch's caching allocator is not there to say so: cudaMallocAsync, programs without it."""

import sys

import pytest

from harness import TREE

MIB = 1 << 20
SMALL = ("--simulate-capacity", "4GiB")
ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
LEAK = """
import torch
model = torch.nn.Linear(1024, 1024).cuda()
optimizer, kept = torch.optim.SGD(model.parameters(), lr=0.1), []
for step in range(100):
    model(torch.randn(1024, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.empty(100 << 20, dtype=torch.uint8, device="cuda"))
"""
HANDLED = """
import torch
size = 16 << 30
while True:
    try:
        kept = torch.empty(size, dtype=torch.uint8, device="cuda")
        break
    except torch.OutOfMemoryError:
        size //= 2
"""


BESIDE = """
import ctypes, torch
model = torch.nn.Linear(1024, 1024).cuda()
driver = ctypes.CDLL("libcuda.so.1")
def surface(size):
    address = ctypes.c_uint64()
    if driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)):
        raise RuntimeError("no surface")
for frame in range(100):
    try:
        surface(256 << 20)
    except RuntimeError:
        HANDLER
    model(torch.randn(1024, 1024, device="cuda")).square().mean().backward()
"""


def test_pools_run_out(vramtrace, tmp_path):
    script = tmp_path / "job.py"
    script.write_text(LEAK)
    recording = vramtrace.record(tmp_path / "job.vtr", [sys.executable, script], options=SMALL, env=ASYNC)
    assert recording.status == 1 and "OutOfMemoryError" in recording.stderr, recording.stderr
    told = vramtrace.json("oom", recording.path)
    device = told["devices"][0]
    assert device["nr_failures"] == 1 == vramtrace.json("report", recording.path)["devices"][0]["tensor"]["ooms"]
    state = device["state"]
    assert state["asked_bytes"] == state["refused_bytes"] == 100 * MIB and state["free_bytes"] < 100 * MIB
    assert state["reserved_bytes"] >= state["allocated_bytes"] > 33 * 100 * MIB
    # Of its tensors the pool knows no shapes, but their steps are known as any others.
    (first,) = told["findings"]
    assert (first["verdict"], first["cause"]) == ("leak", "kept_tensors")
    assert (first["site"]["file"], first["site"]["line"]) == (str(script), 9)
    assert first["bytes"] % (100 * MIB) == 0 and 0 <= state["allocated_bytes"] - first["bytes"] < 300 * MIB
    (growth,) = vramtrace.json("leaks", recording.path)["findings"]
    assert (growth["site"]["file"], growth["site"]["line"]) == (str(script), 9)
    assert vramtrace.call("oom", "--exit-code", recording.path).returncode == 1


def test_pools_that_went_on(vramtrace, tmp_path):
    recording = vramtrace.record(tmp_path / "job.vtr", [sys.executable, "-c", HANDLED], options=SMALL, env=ASYNC)
    assert recording.status == 0, recording.stderr
    told = vramtrace.json("oom", recording.path)
    assert told["findings"] == [] and all(failure["handled"] for failure in told["devices"][0]["failures"])


@pytest.fixture(scope="module")
def fill(compile_c, cuda_flags):
    return compile_c(TREE / "tests" / "e2e" / "programs" / "fill.c", *cuda_flags)


def test_a_program_without_a_framework(vramtrace, fill, tmp_path):
    recording = vramtrace.record(tmp_path / "job.vtr", [fill, "1"], options=SMALL)
    assert recording.status == 1
    told = vramtrace.json("oom", recording.path)
    (finding,) = told["findings"]
    assert (finding["verdict"], finding["cause"]) == ("too_big", "sum") and finding["site"]["function"] == "main"
    device = told["devices"][0]
    report = vramtrace.json("report", recording.path)
    assert report["findings"] == told["findings"]
    state = device["state"]
    assert state["reserved_bytes"] == report["devices"][0]["driver"]["peak_bytes"] == sum(h["bytes"] for h in device["holders"])
    assert state["refused_bytes"] == 300 * MIB and state["lacking_bytes"] == 300 * MIB - state["free_bytes"]
    lines = vramtrace.call("oom", recording.path).stdout.splitlines()
    assert len(lines) <= 24 and all(len(line) <= 80 for line in lines) and "of tensors" not in lines[1], lines


@pytest.mark.parametrize("arguments", [("0",), ("1", "on")], ids=["ended well", "went on"])
def test_a_program_that_got_over_it(vramtrace, fill, tmp_path, arguments):
    path = vramtrace.record(tmp_path / "job.vtr", [fill, *arguments], options=SMALL).path
    told = vramtrace.json("oom", path)
    assert told["devices"][0]["nr_failures"] == 1 and told["findings"] == []
    assert "1 request failed, and the program went on." in vramtrace.call("oom", path).stdout


def record_beside(vramtrace, tmp_path, handler):
    script = tmp_path / "job.py"
    script.write_text(BESIDE.replace("HANDLER", handler))
    recording = vramtrace.record(tmp_path / "job.vtr", [sys.executable, script], options=SMALL)
    return recording, vramtrace.json("oom", recording.path), script


def test_driver_refuses_another_beside_pytorch(vramtrace, tmp_path):
    """No tensor failed; what the program has taken itself is why it gets no more."""
    recording, told, script = record_beside(vramtrace, tmp_path, "raise")
    assert recording.status == 1, recording.stderr
    assert [f["cause"] for f in told["findings"]] == ["non_torch", "library_request"]
    assert all((f["verdict"], f["site"]["file"], f["site"]["line"]) == ("non_torch", str(script), 7) for f in told["findings"])
    assert told["findings"][1]["bytes"] == 256 * MIB == told["devices"][0]["state"]["refused_bytes"]
    state = told["devices"][0]["state"]
    assert 13 * 256 * MIB == state["libraries_bytes"] < told["findings"][0]["bytes"] == state["outside_bytes"]
    assert state["free_bytes"] < 256 * MIB
    page = vramtrace.call("oom", recording.path).stdout.splitlines()
    assert len(page) <= 24 and all(len(line) <= 80 for line in page), page


def test_refusal_that_tensors_followed(vramtrace, tmp_path):
    """A library that tries for more than there is, and goes on with less, as they do."""
    recording, told, _ = record_beside(vramtrace, tmp_path, "pass")
    assert recording.status == 0, recording.stderr
    assert told["devices"] == [] and told["findings"] == []

# SPDX-License-Identifier: MIT
"""Every byte that is in use on a device has a name: the parts that a report shows add up to what the driver says."""

import json
import re
import sys
import textwrap

import pytest

from harness import adds_up, python
from test_ledger import ALL_JOBS

MIB = 2**20
CONTEXT, NCCL_INIT, NCCL_FIRST = 450 * MIB, 4 * MIB, 236 * MIB
MODULE, OTHER = 1234567, 2 * 2**30  # what the job loads, and what the second process takes beside its context

GPU = f"""
name = "small"
base = "h100"
[device]
capacity_bytes = {16 * 2**30}
[memory]
context_bytes = {CONTEXT}
[[nccl]]
ranks = 2
init_bytes = {NCCL_INIT}
first_bytes = {NCCL_FIRST}
"""

# Allocations of 65 MiB while a stream is captured, of 66 MiB before and after: each is reason enough for a sample.
CAPTURE = """
    import ctypes, time
    cuda = ctypes.CDLL("libcuda.so.1")
    def call(name, *arguments):
        assert getattr(cuda, name)(*arguments) == 0, name
    context, stream, graph = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuStreamCreate", ctypes.byref(stream), 1)
    def take(mib):
        for _ in range(5):
            call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(mib << 20))
            time.sleep(0.1)  # longer than any pace
    take(66)
    call("cuStreamBeginCapture_v2", stream, 2)
    take(65)
    call("cuStreamEndCapture", stream, ctypes.byref(graph))
    take(66)
"""


@pytest.fixture(scope="module")
def whole(vramtrace, tmp_path_factory):
    """Two ranks that do all that takes memory, each beside another process on its device."""
    folder = tmp_path_factory.mktemp("residual")
    (folder / "gpu.toml").write_text(GPU)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    program = launcher + [python("residual.py")[1], str(MODULE), str(OTHER)]
    done = vramtrace.record(folder / "job.vtr", program, gpu=f"2x{folder / 'gpu.toml'}")
    assert done.status == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def ranks(vramtrace, whole):
    """The devices of the two ranks, by rank, and what each of them printed."""
    lines = [json.loads(line) for line in whole.stdout.splitlines()]
    devices = [d for d in vramtrace.json("report", whole.path)["devices"] if d["tensor"]["allocs"]]
    assert [d["rank"] for d in devices] == [0, 1]
    return [(d, next(line for line in lines if line["rank"] == d["rank"])) for d in devices]


def test_context_nccl_module_and_others_are_told_apart(ranks):
    for device, said in ranks:
        parts = device["residual"]["at_driver_peak"]
        assert parts == {
            "context": CONTEXT,
            "code": MODULE,
            "local_memory": 0,
            "pool_cached": 0,
            "other_processes": CONTEXT + OTHER,
            "unknown": 0,
        }
        owners = device["driver"]["by_owner_at_peak"]
        assert owners == {"torch": said["reserved"], "nccl": NCCL_INIT + NCCL_FIRST}
        assert adds_up(device) == said["used"]
        assert device["residual"]["process_at_driver_peak_bytes"] == said["used"] - CONTEXT - OTHER
        assert device["residual"]["process_measured"]


def test_nccl_by_communicator(ranks):
    for device, said in ranks:
        (row,) = device["driver"]["nccl_communicators"]
        assert row == {"id": 1, "ranks": 2, "rank": said["rank"], "bytes_at_peak": NCCL_INIT + NCCL_FIRST}


def test_the_device_is_the_one_that_nvidia_smi_numbers(ranks):
    assert [(device["physical_index"], device["mig"]) for device, said in ranks] == [(0, False), (1, False)]


def test_the_text_says_it(vramtrace, whole):
    text = vramtrace.call("report", "-v", whole.path).stdout
    assert re.search(r"^nvidia-smi would show \S+ GiB for its process, \S+ GiB for the GPU$", text, re.MULTILINE)
    page = text[text.index("in use at the driver's peak: GPU 0") :]
    for line in (
        r"  PyTorch +514 MiB   512 MiB allocated, 2.00 MiB cached",
        r"  NCCL +240 MiB   modelled",
        r"    communicator 1, 2 ranks +240 MiB   of NCCL's",
        r"  context +450 MiB   modelled",
        r"  code +1.18 MiB   modelled",
        r"  other processes +2.44 GiB",
        r"  in all +3.62 GiB   of 16.0 GiB; the rest is free",
        r"  nvidia-smi +1.18 GiB   for this process, as NVML said",
    ):
        assert re.search(f"^{line}$", page, re.MULTILINE), line
    assert max(map(len, vramtrace.call("report", whole.path).stdout.splitlines()[2:14])) <= 80


@pytest.mark.parametrize("job", ALL_JOBS)
def test_the_parts_add_up(vramtrace, recorded, job):
    """And nothing is unknown: PyTorch asks for whole units of what the driver hands out."""
    (device,) = vramtrace.json("report", recorded(*job.split()).path)["devices"]
    adds_up(device)
    parts = device["residual"]["at_driver_peak"]
    assert (parts["unknown"], parts["other_processes"]) == (0, 0)
    assert device["residual"]["samples"] > 1


def test_pools_keep_no_secret(vramtrace, record):
    """PyTorch on the driver's pools: what they have reserved and not lent out is named."""
    done = record("mlp.py", env={"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"})
    assert done.status == 0, done.stderr
    (device,) = vramtrace.json("report", done.path)["devices"]
    adds_up(device)
    assert abs(device["residual"]["at_driver_peak"]["unknown"]) < MIB  # the pool's own units


def test_no_sample_while_a_stream_is_captured(vramtrace, tmp_path, events_of):
    done = vramtrace.record(tmp_path / "job.vtr", [sys.executable, "-c", textwrap.dedent(CAPTURE)])
    assert done.status == 0, done.stderr
    kinds = [(e["kind"], e["size"] >> 20) for e in events_of(done.path)]
    captured = [i for i, (kind, mib) in enumerate(kinds) if kind == "driver_alloc" and mib == 65]
    samples = [i for i, (kind, mib) in enumerate(kinds) if kind == "memory_info"]
    assert len(captured) == 5
    assert not [i for i in samples if captured[0] < i < captured[-1]]
    assert [i for i in samples if i < captured[0]] and [i for i in samples if i > captured[-1]]


SAMPLED = """
import ctypes, struct, time
cuda = ctypes.CDLL("libcuda.so.1")
context, address, module = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
image = struct.pack("<16sHHIQQQIHHHHHH", b"\\x7fELF\\2\\1\\1", 2, 190, 1, 0, 0, 448, 0, 64, 0, 0, 64, 1, 0).ljust(512, b"\\0")

def take(mib, status=0):
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib << 20)) == status
    time.sleep(1)

assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
take(1)
take(64)
take(1 << 20, 2)
assert cuda.cuModuleLoadData(ctypes.byref(module), image) == 0
time.sleep(1)
for _ in range(1000):
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20)) == 0
    assert cuda.cuMemFree_v2(address) == 0
time.sleep(1)
"""


def test_what_gives_rise_to_a_sample(vramtrace, tmp_path, events_of):
    """The first allocation, so many MiB more, a refusal, a module, the end; and never more than their pace allows."""
    done = vramtrace.record(tmp_path / "job.vtr", [sys.executable, "-c", SAMPLED])
    assert (done.status, done.stderr) == (0, "")
    kinds = [e["kind"] for e in events_of(done.path) if not e["modelled"] and e["kind"] != "process_info"]
    loop = kinds.index("driver_free")  # where the thousand begin, a sample of their own or none before it
    loop -= 2 if kinds[loop - 1] == "memory_info" else 1
    assert kinds[:loop] == [
        "object_new",
        *("driver_alloc", "memory_info") * 2,
        *("alloc_failed", "memory_info"),
        *("object_new", "memory_info"),
    ]
    assert kinds[-1] == "memory_info"
    assert 1 <= kinds[loop:-1].count("memory_info") <= 500


@pytest.fixture
def small(vramtrace, tmp_path):
    """small(setting): the recording of a small program under VRAMTRACE_SAMPLE_MIB=setting."""
    program = [sys.executable, "-c", "import torch; x = torch.zeros(2**20, device='cuda')"]
    return lambda setting: vramtrace.record(tmp_path / "job.vtr", program, env={"VRAMTRACE_SAMPLE_MIB": setting})


def test_samples_can_be_left_out(vramtrace, small):
    done = small("0")
    (device,) = vramtrace.json("report", done.path)["devices"]
    residual = device["residual"]
    assert (residual["samples"], residual["peak_bytes"], residual["device_at_driver_peak_bytes"]) == (0, None, None)
    assert residual["at_driver_peak"]["unknown"] is None
    assert residual["at_driver_peak"]["context"] == 500 * MIB  # as the simulated device models it
    text = vramtrace.call("report", done.path).stdout
    assert "nvidia-smi" not in text and "context 500 MiB (modelled)" in text


def test_a_setting_that_is_no_number(vramtrace, small):
    done = small("many")
    assert (done.status, done.stderr) == (0, "")
    assert "VRAMTRACE_SAMPLE_MIB='many' is no number of MiB: 64 taken" in vramtrace.call("info", done.path).stdout
    assert vramtrace.json("report", done.path)["devices"][0]["residual"]["samples"] > 0

# SPDX-License-Identifier: MIT
"""Several simulated GPUs: as many as asked for, each with its own memory, told apart in the recording."""

import json
import re
import sys
import textwrap

import pytest

from harness import program_environment, python

MIB = 2**20

COUNT = """
    import json, torch
    devices = range(torch.cuda.device_count())
    names = {torch.cuda.get_device_name(device) for device in devices}
    uuids = {str(torch.cuda.get_device_properties(device).uuid) for device in devices}
    totals = {torch.cuda.mem_get_info(device)[1] for device in devices}
    peers = [torch.cuda.can_device_access_peer(a, b) for a in devices for b in devices if a != b]
    print(json.dumps([len(devices), sorted(names), len(uuids), sorted(totals), sum(peers), len(peers)]))
"""

AGREE = """
    import ctypes, json, torch
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    def ask(function, device, size):
        answer = ctypes.create_string_buffer(size)
        assert getattr(nvml, function)(device, answer, size) == 0, function
        return answer.value.decode()
    def numbers(function, device, how_many, kind=ctypes.c_int):
        answers = [kind() for _ in range(how_many)]
        assert getattr(nvml, function)(device, *map(ctypes.byref, answers)) == 0, function
        return [answer.value for answer in answers]
    agree = []
    for ordinal in range(torch.cuda.device_count()):
        held = torch.empty((ordinal + 1) << 28, dtype=torch.uint8, device=ordinal)
        free, total = torch.cuda.mem_get_info(ordinal)
        of = torch.cuda.get_device_properties(ordinal)
        device = ctypes.c_void_p()
        bus_id = f"{of.pci_domain_id:08X}:{of.pci_bus_id:02X}:{of.pci_device_id:02X}.0"
        assert nvml.nvmlDeviceGetHandleByPciBusId_v2(bus_id.encode(), ctypes.byref(device)) == 0
        memory = (ctypes.c_ulonglong * 3)()
        assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
        agree.append([
            of.name == ask("nvmlDeviceGetName", device, 96),
            f"GPU-{of.uuid}" == ask("nvmlDeviceGetUUID", device, 96),
            [of.major, of.minor] == numbers("nvmlDeviceGetCudaComputeCapability", device, 2),
            [of.memory_bus_width] == numbers("nvmlDeviceGetMemoryBusWidth", device, 1),
            list(memory) == [total, free, total - free] and of.total_memory == total,
        ])
        index, = numbers("nvmlDeviceGetIndex", device, 1)
        agree[-1].append(index)
    print(json.dumps(agree))
"""

# What CUDA_VISIBLE_DEVICES may hold on a machine with four devices, and the physical indices that it names.
VISIBLE = {
    "3,1": [3, 1],
    "": [],
    "-1": [],
    "0,-1,2": [0],
    "1,9,2": [1],
    "2, 1": [2, 1],
    "1,1": [],
    "none": [],
    "GPU-73696d67-7075-0000-0000-000000000002,GPU-73696d67-7075-0000-0000-000000000000": [2, 0],
    "GPU-73696d67": [],
    "GPU-00000000": [],
}

SEEN_BY_CUDA = """
    import ctypes
    cuda = ctypes.CDLL("libcuda.so.1")
    count, bus = ctypes.c_int(), ctypes.create_string_buffer(16)
    assert cuda.cuInit(0) in (0, 100)  # no device
    cuda.cuDeviceGetCount(ctypes.byref(count))
    for device in range(count.value):
        assert cuda.cuDeviceGetPCIBusId(bus, 16, device) == 0
        print(int(bus.value[5:7], 16) - 1)
"""

SEEN_BY_TORCH = """
    import json, os, sys, torch
    counts = []
    for visible in sys.argv[1:]:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
        counts.append(torch.cuda._device_count_nvml())
    print(json.dumps(counts))
"""

NEEDS_50_GIB = """
    import torch
    held = [torch.empty(2**30, dtype=torch.uint8, device="cuda") for _ in range(50)]
    print(len(held), "GiB fitted")
"""

CAPACITY = """
    import json, torch
    held = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    free, total = torch.cuda.mem_get_info()
    print(json.dumps([total, total - free, torch.cuda.get_device_properties(0).total_memory]))
"""

UNLIMITED = """
    import json, torch
    held = [torch.empty(2**40, dtype=torch.uint8, device="cuda") for _ in range(6)]
    free, total = torch.cuda.mem_get_info()
    assert 0 <= free <= total < 2**63
    torch.cuda.set_per_process_memory_fraction(1.0)
    print(json.dumps([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), torch.cuda.memory_stats()["num_ooms"]]))
"""

FULL = """
    import torch
    held = torch.empty(30 * 2**30, dtype=torch.uint8, device="cuda:1")
    other = torch.empty(30 * 2**30, dtype=torch.uint8, device="cuda:0")
    try:
        torch.empty(30 * 2**30, dtype=torch.uint8, device="cuda:1")
    except torch.OutOfMemoryError as error:
        print(str(error).splitlines()[0])
"""


@pytest.fixture
def simulate(vramtrace, tmp_path):
    """simulate(gpu, code, env=...): run Python code on simulated GPUs, recorded in this test's folder."""

    def run(gpu, code, env=None, options=(), status=0):
        program = [sys.executable, "-c", textwrap.dedent(code)]
        done = vramtrace.record(tmp_path / "job.vtr", program, gpu=gpu, env=env, options=options)
        assert done.status == status, done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def recorded_on_two(vramtrace, tmp_path_factory):
    """The recording of jobs/two_devices.py."""
    done = vramtrace.record(tmp_path_factory.mktemp("two") / "job.vtr", python("two_devices.py"), gpu="2xa100-40")
    assert done.status == 0, done.stderr
    return done


@pytest.mark.parametrize(
    "gpu, visible, count, name, total_bytes",
    [
        ("8xh100", None, 8, "NVIDIA H100 80GB HBM3", 85017755648),
        ("2xa100-40", None, 2, "NVIDIA A100-SXM4-40GB", 42298834944),
        ("8xh100", "5,2,0", 3, "NVIDIA H100 80GB HBM3", 85017755648),
    ],
)
def test_as_many_devices_as_asked_for(simulate, gpu, visible, count, name, total_bytes):
    done = simulate(gpu, COUNT, env={"CUDA_VISIBLE_DEVICES": visible} if visible else None)
    peers = count * (count - 1)
    assert done.ledger == [count, [name], count, [total_bytes], peers, peers]


def test_cuda_and_nvml_agree(simulate):
    """Name, UUID, compute capability, bus and memory, of the devices that the process sees, found by PCI bus id."""
    done = simulate("4xl40s", AGREE, env={"CUDA_VISIBLE_DEVICES": "2,0"})
    assert done.ledger == [[True] * 5 + [2], [True] * 5 + [0]]


@pytest.mark.parametrize("visible", VISIBLE)
def test_visible_devices(vramtrace, visible):
    code = [sys.executable, "-c", textwrap.dedent(SEEN_BY_CUDA)]
    env = program_environment({"CUDA_VISIBLE_DEVICES": visible})
    done = vramtrace.call("run", "-q", "--no-record", "--simulate", "4xh100", "--", *code, env=env)
    assert done.returncode == 0, done.stderr
    assert [int(line) for line in done.stdout.splitlines()] == VISIBLE[visible]


def test_visible_devices_as_torch_reads_them(vramtrace):
    """PyTorch reads the variable itself, with NVML's help, before it asks CUDA: the two must not differ."""
    code = [sys.executable, "-c", textwrap.dedent(SEEN_BY_TORCH), *VISIBLE]
    done = vramtrace.call("run", "-q", "--no-record", "--simulate", "4xh100", "--", *code, env=program_environment())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [len(physical) for physical in VISIBLE.values()]


def test_a_script_fits_where_there_is_room(simulate, vramtrace):
    done = simulate("a100-40", NEEDS_50_GIB, status=1)
    assert "torch.OutOfMemoryError: CUDA out of memory" in done.stderr
    done = simulate("a100-80", NEEDS_50_GIB, options=["--force"])
    assert done.stdout == "50 GiB fitted\n"


@pytest.mark.parametrize("size, total", [("24GiB", 24 * 2**30), ("20000000000", 20 * 10**9)])
def test_capacity(simulate, vramtrace, size, total):
    done = simulate("h100", CAPACITY, options=["--simulate-capacity", size])
    assert done.ledger == [total, 2**30 + 500 * MIB, total]
    (device,) = vramtrace.json("report", done.path)["devices"]
    assert (device["capacity_bytes"], device["capacity_unlimited"]) == (total, False)


@pytest.mark.parametrize(
    "setting",
    [
        "",
        pytest.param("expandable_segments:True", marks=pytest.mark.slow),
        pytest.param("backend:cudaMallocAsync", marks=pytest.mark.slow),
    ],
)
def test_unlimited_capacity(simulate, vramtrace, setting):
    """Nothing is refused, also beyond the total that programs are told, and the peak is what PyTorch counts."""
    done = simulate("h100", UNLIMITED, {"PYTORCH_ALLOC_CONF": setting}, ["--simulate-capacity", "unlimited"])
    allocated, reserved, ooms = done.ledger
    assert (allocated, ooms) == (6 * 2**40, 0) and reserved >= allocated
    (device,) = vramtrace.json("report", done.path)["devices"]
    assert (device["capacity_bytes"], device["capacity_unlimited"]) == (None, True)
    assert device["tensor"]["peak_bytes"] == allocated
    for command in ("report", "info"):
        assert re.search("^  capacity +unlimited$", vramtrace.call(command, done.path).stdout, re.MULTILINE), command


def test_each_device_has_its_own_capacity(vramtrace, simulate):
    done = simulate("2xa100-40", FULL)
    assert "GPU 1 has a total capacity of 39.39 GiB of which 8.98 GiB is free" in done.stdout
    devices = vramtrace.json("report", done.path)["devices"]
    assert [device["tensor"]["ooms"] for device in devices] == [0, 1]
    assert [device["driver"]["peak_bytes"] for device in devices] == [30 * 2**30] * 2


def test_both_devices_are_in_the_report(vramtrace, recorded_on_two):
    ledger = recorded_on_two.ledger
    devices = vramtrace.json("report", recorded_on_two.path)["devices"]
    assert [device["device"] for device in devices] == [0, 1]
    assert [device["name"] for device in devices] == ledger["names"] == ["NVIDIA A100-SXM4-40GB"] * 2
    assert [device["capacity_bytes"] for device in devices] == ledger["total_bytes"]
    assert [device["tensor"]["peak_bytes"] for device in devices] == ledger["peak_bytes"]
    assert [device["tensor"]["live_at_end_bytes"] for device in devices] == ledger["current_bytes"]
    assert [device["reserved"]["peak_bytes"] for device in devices] == ledger["reserved_peak_bytes"]
    assert [device["reserved"]["end_bytes"] for device in devices] == ledger["reserved_bytes"]
    assert [device["driver"]["live_at_end_bytes"] for device in devices] == ledger["reserved_bytes"]


def test_driver_frees_belong_to_the_device_of_their_memory(events_of, recorded_on_two):
    """The job frees each device's memory while the other one is current."""
    live, freed = {}, []
    for event in (event for event in events_of(recorded_on_two.path) if not event["modelled"]):
        if event["kind"] == "driver_alloc":
            live[event["address"]] = event["device"]
        elif event["kind"] == "driver_free":
            assert event["device"] == live.pop(event["address"]), event
            freed.append((event["device"], event["size"] // MIB))
    assert sorted(freed) == [(0, 64), (1, 96), (1, 128)]


def test_memory_of_a_device_is_returned_to_it(recorded_on_two):
    """What mem_get_info tells of each device fits what was freed on it: capacity, less a context, less what is kept."""
    ledger = recorded_on_two.ledger
    taken = [total - free for total, free in zip(ledger["total_bytes"], ledger["free_bytes"])]
    contexts = [bytes_taken - kept for bytes_taken, kept in zip(taken, ledger["reserved_bytes"])]
    assert contexts[0] == contexts[1] == 420 * MIB


def test_processes_share_a_device(vramtrace, tmp_path):
    """What another process holds is missing here, and PyTorch's message names it; killed, it holds nothing."""
    done = vramtrace.record(tmp_path / "job.vtr", python("shared_device.py"), gpu="2xa100-40")
    assert done.status == 0, done.stderr
    ledger = done.ledger
    context = ledger["alone"] - 2 * MIB
    assert ledger["together"] == ledger["alone"] + 30 * 2**30 + context
    assert ledger["after"] == ledger["alone"] + 30 * 2**30
    assert f"Process {ledger['pid']} has 30.41 GiB memory in use." in ledger["message"]
    assert "this process has 422.00 MiB memory in use." in ledger["message"]


def test_a_second_context_on_device_0(vramtrace, tmp_path):
    """Ranks that touch device 0 beside their own take memory of it, and the rank that works there sees it."""
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = vramtrace.record(tmp_path / "job.vtr", program + python("second_context.py")[1:], gpu="2xh100")
    assert done.status == 0, done.stderr
    ledger = done.ledger
    assert ledger["before"] == 500 * MIB + 2 * MIB
    assert ledger["after"] == 2 * ledger["before"]

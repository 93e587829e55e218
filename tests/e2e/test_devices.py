# SPDX-License-Identifier: MIT
"""Several simulated GPUs: as many as asked for, each with its own memory, told apart in the recording."""

import sys
import textwrap

import pytest

from harness import python

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

    def run(gpu, code, env=None):
        program = [sys.executable, "-c", textwrap.dedent(code)]
        done = vramtrace.record(tmp_path / "job.vtr", program, gpu=gpu, env=env)
        assert done.status == 0, done.stderr
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
    for event in events_of(recorded_on_two.path):
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

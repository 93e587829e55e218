# SPDX-License-Identifier: MIT
"""NVML and CUPTI of NVIDIA's own, with the recorder beside them: the same answers, the same messages, the same end."""

from pathlib import Path

import pytest

from driver_runs import BUILD, device_nodes_as_before, same_outcome

CUPTI = {
    "11.8": "nvidia-cuda-cupti-cu11==11.8.87",
    "12.4": "nvidia-cuda-cupti-cu12==12.4.127",
    "12.9": "nvidia-cuda-cupti-cu12==12.9.79",
}


def test_nvml_answers_the_same(driver, compiled, runs):
    plain, recorded = runs.both(driver, compiled("nvml_asks"))
    same_outcome(plain, recorded)
    assert plain.returncode == 0 and plain.stdout == recorded.stdout
    assert "nvmlInit_v2: " in plain.stdout


@pytest.mark.parametrize("options", [(), ("--cupti",)], ids=["by itself", "asked for"])
@pytest.mark.parametrize("version", CUPTI)
def test_cupti_is_subscribed_and_left(driver, wheels, compiled, runs, version, options):
    folder = wheels(f"cupti-{version}", CUPTI[version])
    (library,) = (path for path in folder.glob("nvidia/cuda_cupti/lib/libcupti.so.1*"))
    plain = runs.run(driver, compiled("cupti_client"), library)
    recorded = runs.run(driver, compiled("cupti_client"), library, recorded=True, options=options)
    same_outcome(plain, recorded)
    assert plain.returncode == 0 and plain.stdout == recorded.stdout
    assert "cuptiSubscribe: " in plain.stdout


def test_a_node_that_the_library_left_is_no_gpu(driver, compiled, runs):
    """Loaded by root it makes /dev/nvidiactl where there is no GPU; who asks `vramtrace gpu` then hears that there is none."""
    with device_nodes_as_before():
        runs.run(driver, compiled("nvml_asks"), keep_nodes=True)
        done = runs.run(driver, BUILD / "vramtrace", "gpu", keep_nodes=True)
        left = Path("/dev/nvidiactl").exists()
    assert done.returncode == 1 and done.stderr == ""
    reason = "its driver says that there is none: CUDA error 100" if left else "the kernel has no driver of NVIDIA's"
    assert done.stdout == f"no GPU of NVIDIA's answers here: {reason}\n"


def test_where_nothing_shows_a_driver_its_library_is_not_loaded(driver, runs):
    if Path("/dev/nvidiactl").exists() or Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine shows a driver")
    done = runs.run(driver, BUILD / "vramtrace", "gpu", keep_nodes=True)
    assert done.stdout == "no GPU of NVIDIA's answers here: the kernel has no driver of NVIDIA's\n"
    assert not Path("/dev/nvidiactl").exists()

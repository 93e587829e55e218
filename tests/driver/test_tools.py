# SPDX-License-Identifier: MIT
"""NVML and CUPTI of NVIDIA's own, with the recorder beside them: the same answers, the same messages, the same end."""

import pytest

from conftest import same_outcome

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

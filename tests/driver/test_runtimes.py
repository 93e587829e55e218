# SPDX-License-Identifier: MIT
"""NVIDIA's runtimes and libraries on NVIDIA's driver: the same errors, and every entry point they hold is a wrapper."""

import re

import pytest

from driver_runs import BUILD, same_outcome

RUNTIMES = {
    "11.8": "nvidia-cuda-runtime-cu11==11.8.89",
    "12.1": "nvidia-cuda-runtime-cu12==12.1.105",
    "12.2": "nvidia-cuda-runtime-cu12==12.2.140",
    "12.4": "nvidia-cuda-runtime-cu12==12.4.127",
    "12.6": "nvidia-cuda-runtime-cu12==12.6.77",
    "12.8": "nvidia-cuda-runtime-cu12==12.8.90",
    "12.9": "nvidia-cuda-runtime-cu12==12.9.79",
    "13.0": "nvidia-cuda-runtime==13.0.96",  # these drivers are too old for it: it must be told so in the same words
}
REFUSALS = {
    "13.0": "cudaMalloc: 35 CUDA driver version is insufficient for CUDA runtime version",
}
CALLS = (
    "cudaRuntimeGetVersion", "cudaDriverGetVersion", "cudaGetDeviceCount", "cudaMalloc", "cudaMallocHost",
    "cudaMallocManaged", "cudaMemGetInfo", "cudaFree", "cudaDeviceSynchronize", "cudaGetLastError",
)

# CUDA 12.4's, in one folder: each finds the others beside it.
LIBRARY_WHEELS = (
    "nvidia-cublas-cu12==12.4.5.8", "nvidia-cudnn-cu12==9.1.0.70", "nvidia-nccl-cu12==2.21.5",
    "nvidia-cuda-nvrtc-cu12==12.4.127", "nvidia-cuda-runtime-cu12==12.4.127",
)
LIBRARIES = {
    "cublas/lib/libcublas.so.12": ("cublasCreate_v2",),
    "cublas/lib/libcublasLt.so.12": ("cublasLtCreate",),
    "cudnn/lib/libcudnn.so.9": ("cudnnCreate",),
    "nccl/lib/libnccl.so.2": ("ncclGetVersion", "ncclGetUniqueId", "ncclCommInitAll"),
}


def split(done):
    """What the calls returned, and the set of (library, owner, entry point) held at the end."""
    lines = done.stdout.splitlines()
    held = [tuple(line.split()[1:]) for line in lines if line.startswith("held ")]
    return [line for line in lines if not line.startswith("held ")], held


def check_held(plain, recorded):
    """Whatever a library holds of the driver in a plain run, it holds the recorder's wrapper of when recorded."""
    same_outcome(plain, recorded)
    (said, held), (said_recorded, held_recorded) = split(plain), split(recorded)
    assert said == said_recorded
    assert not [row for row in held_recorded if row[1] != "ours"]
    assert [(library, symbol) for library, _, symbol in held] == [(library, symbol) for library, _, symbol in held_recorded]
    return said, held


@pytest.mark.parametrize("version", RUNTIMES)
def test_a_runtime_of_nvidias(driver, wheels, compiled, runs, version):
    folder = wheels(f"cudart-{version}", RUNTIMES[version])
    (library,) = folder.glob("nvidia/*/lib/libcudart.so.1*")
    said, held = check_held(*runs.both(driver, compiled("holds"), library, *CALLS))
    assert REFUSALS.get(version, "cudaMalloc: 100 no CUDA-capable device is detected") in said
    assert len(held) > 100 or version in REFUSALS


@pytest.mark.parametrize("version", ["11.8", "12.1", "12.9"])
def test_a_driver_that_is_closed_and_opened_again(driver, wheels, compiled, runs, version):
    """Older runtimes close it when they find no GPU; the recorder then must not call where it lay before."""
    folder = wheels(f"cudart-{version}", RUNTIMES[version])
    (library,) = folder.glob("nvidia/cuda_runtime/lib/libcudart.so.1*")
    plain, recorded = runs.both(driver, compiled("driver_again"), library)
    same_outcome(plain, recorded)
    assert plain.returncode == 0 and plain.stdout == recorded.stdout
    assert plain.stdout.count("cuInit 100, cuMemAlloc 3, found 0 0, again 3") == 3


# ---- in which order libraries begin and end ---------------------------------------------------------------------------


def order(folder, done):
    """The lines of the loader about libraries that begin, end, are opened and closed, without the recorder's own."""
    lines = [line.split(":", 1)[1].strip() for path in sorted(folder.glob("loader.*")) for line in path.read_text().splitlines()]
    assert done.returncode == 0 and done.stderr == ""
    wanted = re.compile(r"calling (?:init|fini)|opening file=.*direct_opencount|closing file=")
    return [line for line in lines if wanted.match(line) and "libinterpose" not in line]


@pytest.mark.parametrize("version", ["11.8", "12.1", "12.9"])
def test_libraries_begin_and_end_in_the_same_order(driver, wheels, compiled, runs, version):
    folder = wheels(f"cudart-{version}", RUNTIMES[version])
    (library,) = folder.glob("nvidia/cuda_runtime/lib/libcudart.so.1*")
    found = []
    for preload in ("", BUILD / "libinterpose.so"):
        for path in runs.folder.glob("loader.*"):
            path.unlink()
        env = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(runs.folder / "loader"), "LD_PRELOAD": str(preload)}
        env |= {"VRAMTRACE_OUTPUT": str(runs.recording)}
        found.append(order(runs.folder, runs.run(driver, compiled("holds"), library, *CALLS, env=env)))
    assert found[0] == found[1] and any("libcuda.so.1" in line for line in found[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARIES, ids=lambda name: name.split("/")[0] + "-" + re.sub(r".*/lib|\.so.*", "", name))
def test_a_library_of_nvidias(driver, wheels, compiled, runs, name):
    folder = wheels("libraries-12.4", *LIBRARY_WHEELS)
    said, held = check_held(*runs.both(driver, compiled("holds"), folder / "nvidia" / name, *LIBRARIES[name]))
    assert said and len(held) > 100

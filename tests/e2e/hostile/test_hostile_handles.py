# SPDX-License-Identifier: MIT
"""Libraries that programs open by name and ask by handle: the simulated ones answer, or a message that fits.

With the recorder and without, and with either preload first.
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from harness import program_environment

PROGRAMS = Path(__file__).parent / "programs"
MIB = 1 << 20

# Library -> file as the wheels have it, and what a program asks of it.
FILES = {
    "runtime": "libcudart.so.*",
    "nccl": "libnccl.so.2",
    "cublas": "libcublas.so.*",
    "cudnn": "libcudnn.so.*",
    "cufft": "libcufft.so.*",
    "cusolver": "libcusolver.so.*",
    "cusparse": "libcusparse.so.*",
}


def wheel_file(pattern):
    found = sorted(Path(sysconfig.get_paths()["purelib"], "nvidia").glob(f"*/lib/{pattern}"))
    if not found:
        pytest.skip(f"no wheel here brings '{pattern}'")
    return found[0]


def by_handle(what, path, *names):
    return [sys.executable, str(PROGRAMS / "by_handle.py"), what, str(path), *names]


@pytest.fixture
def plain(vramtrace):
    """plain(program): run on the simulated GPU alone, without the recorder."""

    def run(program, **more):
        environment = vramtrace.preload_environment(vramtrace.simgpu / "libsimgpu.so", **more)
        return subprocess.run(program, capture_output=True, text=True, env=environment, timeout=300)

    return run


@pytest.fixture
def other_library(tmp_path):
    """other_library(file, *functions): a library of that file name whose functions answer 999."""

    def build(file, *functions):
        source = tmp_path / "other.c"
        source.write_text("".join(f"int {name}(void)\n{{\n\treturn 999;\n}}\n" for name in functions))
        subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / file, source], check=True)
        return tmp_path / file

    return build


@pytest.mark.parametrize("library", FILES)
def test_library_by_handle(library, plain, vramtrace, tmp_path):
    program = by_handle(library, wheel_file(FILES[library]))
    alone = plain(program)
    assert alone.returncode == 0 and not alone.stderr, alone.stderr
    assert set(json.loads(alone.stdout).values()) == {0}
    recorded = vramtrace.record(tmp_path / "job.vtr", program)
    assert (recorded.status, recorded.stdout, recorded.stderr) == (0, alone.stdout, "")


def test_what_is_taken_by_handle_is_recorded(vramtrace, tmp_path, reliability):
    program = by_handle("runtime", wheel_file(FILES["runtime"]))
    recorded = vramtrace.record(tmp_path / "job.vtr", program)
    assert recorded.status == 0
    driver = vramtrace.whole_report(tmp_path / "job.vtr")["devices"][0]["driver"]
    assert driver["by_owner_at_peak"]["program"] == driver["peak_bytes"] == 64 * MIB
    reliability(
        "library-by-handle",
        program="opens the file of `libcudart`, NCCL, cuBLAS ... by its path and calls it by handle, as vLLM's loaders do",
        ends="as on a GPU: each call succeeds",
        lost="none",
        said="the simulated library answers; 64 MiB of `cudaMalloc` are the program's",
    )


def test_runtime_found_in_maps(vramtrace, tmp_path):
    """torch's own runtime, opened once more: one driver ledger, and torch's part stays torch's."""
    recorded = vramtrace.record(tmp_path / "job.vtr", [sys.executable, PROGRAMS / "found_in_maps.py"])
    assert recorded.status == 0 and not recorded.stderr, recorded.stderr
    reserved, file = recorded.stdout.split()
    owners = vramtrace.json("report", tmp_path / "job.vtr")["devices"][0]["driver"]["by_owner_at_peak"]
    assert file.startswith("libcudart.so")
    assert owners["torch"] == int(reserved) and owners["program"] == 64 * MIB


def test_either_preload_first(vramtrace, tmp_path):
    """The recorder sees what it is loaded before; the program's answers are the same both ways."""
    program = by_handle("runtime", wheel_file(FILES["runtime"]))
    both = (vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so")
    for order in (both, both[::-1]):
        environment = vramtrace.preload_environment(*order, VRAMTRACE_OUTPUT=tmp_path / "job.vtr")
        done = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=300)
        assert done.returncode == 0 and not done.stderr, done.stderr
        assert set(json.loads(done.stdout).values()) == {0}


def test_a_name_that_is_missing(plain, other_library, vramtrace, tmp_path, reliability):
    """What the real library has and simgpu has not: the lookup fails, names library and function, and one line says so."""
    path = other_library("libnccl.so.2", "ncclOfTomorrow", "ncclNextYear", "ncclGetVersion")
    program = by_handle("names", path, "ncclGetVersion", "ncclOfTomorrow", "ncclNextYear", "nowhere")
    alone = plain(program)
    found = json.loads(alone.stdout)
    assert found["ncclGetVersion"] == "found"
    for name in ("ncclOfTomorrow", "ncclNextYear"):
        assert f"'{name}' of 'libnccl.so.2' is not simulated; what must have it needs a GPU" in found[name]
    assert found["nowhere"] == f"{path}: undefined symbol: nowhere"
    line = "simgpu: 'ncclOfTomorrow' of 'libnccl.so.2' is not simulated: looking it up finds nothing"
    assert alone.stderr.startswith(line) and alone.stderr.count("\n") == 1
    recorded = vramtrace.record(tmp_path / "job.vtr", program)
    assert (recorded.status, recorded.stdout, recorded.stderr) == (0, alone.stdout, alone.stderr)
    reliability(
        "missing-in-library",
        program="looks up, by handle, functions of NCCL that are not simulated",
        ends="as with a library that has none of that name",
        lost="none",
        said="`'ncclOfTomorrow' of 'libnccl.so.2' is not simulated`, in `dlerror()` and once on stderr",
    )


def test_runtime_of_another_version(plain, other_library):
    """By the handle of CUDA 12's runtime: functions whose interface has changed since are refused, others serve."""
    path = other_library("libcudart.so.12", "cudaMalloc", "cudaMemAdvise")
    found = json.loads(plain(by_handle("names", path, "cudaMalloc", "cudaMemAdvise")).stdout)
    assert found["cudaMalloc"] == "found"
    assert "'cudaMemAdvise' of 'libcudart.so.12' is not the function of that name in the simulated" in found["cudaMemAdvise"]
    thirteen = other_library("libcudart.so.13", "cudaMemAdvise")
    assert json.loads(plain(by_handle("names", thirteen, "cudaMemAdvise")).stdout) == {"cudaMemAdvise": "found"}


def test_libraries_that_are_not_simulated_stay(plain, other_library):
    """NVRTC and whatever else a program opens is the real one."""
    path = other_library("libnvrtc.so.13", "cudaMalloc")
    code = f"import ctypes; print(ctypes.CDLL({str(path)!r}).cudaMalloc())"
    assert plain([sys.executable, "-c", code]).stdout.strip() == "999"


def test_pathfinder_and_bindings(vramtrace, tmp_path, reliability):
    pytest.importorskip("cuda.pathfinder")
    pytest.importorskip("cuda.bindings")
    recorded = vramtrace.record(tmp_path / "job.vtr", [sys.executable, PROGRAMS / "pathfinder.py"])
    assert recorded.status == 0, recorded.stderr
    assert recorded.stdout.split() == ["36", "libcublas", "libcudnn", "libnccl", "libnvrtc"]
    assert "simgpu: the CUDA runtime is linked into '" in recorded.stderr and "cuda/bindings" in recorded.stderr
    assert vramtrace.json("report", tmp_path / "job.vtr")["devices"][0]["driver"]["peak_bytes"] == 8 * MIB
    reliability(
        "bindings-and-pathfinder",
        program="`cuda.pathfinder` opens the libraries, `cuda.bindings` has a runtime of its own linked into it",
        ends="libraries and driver work; calls of the runtime inside `cuda.bindings` fail with 36",
        lost="none",
        said="`the CUDA runtime is linked into '.../cuda/bindings/...'`",
    )


def test_runtime_linked_into_a_program(vramtrace, tmp_path, cuda_flags, reliability):
    """nvcc's default: refused, and said."""
    archive = wheel_file("libcudart_static.a")
    include = [flag for flag in cuda_flags if "lib" not in flag]
    program = tmp_path / "linked"
    command = ["cc", "-o", program, PROGRAMS / "one_allocation.c", *include, archive, "-lstdc++", "-lpthread", "-ldl", "-lrt"]
    subprocess.run(list(map(str, command)), check=True, env=program_environment())
    recorded = vramtrace.record(tmp_path / "job.vtr", [program])
    assert recorded.stdout == "cudaMalloc 36\n" and recorded.status == 1
    assert f"simgpu: the CUDA runtime is linked into '{program}'" in recorded.stderr
    assert "link it with '-cudart shared'" in recorded.stderr
    reliability(
        "runtime-linked-in",
        program="a C program with the CUDA runtime linked into it, on the simulated GPU",
        ends="`cudaMalloc` fails with 36, as documented",
        lost="none",
        said="`the CUDA runtime is linked into '...'; link it with '-cudart shared'`",
    )

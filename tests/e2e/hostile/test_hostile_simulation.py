# SPDX-License-Identifier: MIT
"""Programs that lean on the finer print of CUDA and PyTorch, on the simulated GPU: the same with and without recording."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness import program_environment

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def both(vramtrace, tmp_path):
    """both(program): run it on the simulated GPU without and with the recorder; what it prints must be the same."""

    def run(program, **options):
        environment = vramtrace.preload_environment(vramtrace.simgpu / "libsimgpu.so")
        plain = subprocess.run(
            list(map(str, program)), capture_output=True, text=True, env=environment, timeout=300, cwd=tmp_path
        )
        recorded = vramtrace.record(tmp_path / "job.vtr", program, cwd=tmp_path, **options)
        assert (recorded.status, recorded.stdout) == (plain.returncode, plain.stdout), plain.stderr + recorded.stderr
        return plain, recorded

    return run


def test_what_a_capture_forbids(vramtrace, both, reliability):
    """A wait in a capture fails and invalidates the capture, whatever waits; what follows goes on as ever."""
    plain, recorded = both([sys.executable, PROGRAMS / "in_a_capture.py"])
    forbidden = "CUDA error: operation not permitted when stream is capturing"
    on_event = "CUDA error: operation not permitted on an event last recorded in a capturing stream"
    spoilt = "CUDA error: operation failed due to a previous error during capture"
    assert json.loads(plain.stdout) == {
        "nothing": ["fine", "captured"],
        "cudaDeviceSynchronize": [forbidden, spoilt],
        "item": [forbidden, spoilt],
        "cudaEventSynchronize": [on_event, spoilt],
        "cudaStreamSynchronize": [forbidden, spoilt],
        "the allocator": ["fine", "captured"],
    }
    vramtrace.whole_report(recorded.path)
    reliability(
        "wait-in-a-capture",
        program="waits for device, stream or event inside a capture (`torch.cuda.synchronize()`, `.item()`)",
        ends="as on a GPU: error 900 or 907, then 901 for the capture; what follows works",
        lost="none",
        said="PyTorch's own errors",
    )


@pytest.mark.parametrize("where", ["recorded", "--no-record"])
def test_small_files_on_a_simulated_gpu(vramtrace, compile_c, cuda_flags, tmp_path, reliability, where):
    """A limit on files that the simulated GPU's table exceeds is said, and is no signal; one with room is no matter."""
    program = compile_c(PROGRAMS / "small_files.c", *cuda_flags)

    def run(most):
        options = ("--no-record",) if where == "--no-record" else ("-o", tmp_path / f"{most}.vtr")
        return vramtrace.call("run", *options, "--simulate", "h100", "--", program, str(most), env=program_environment())

    roomy = run(64 << 20)
    assert (roomy.returncode, roomy.stdout) == (0, "40,000 calls\n"), roomy.stderr
    done = run(8 << 10)
    assert (done.returncode, done.stdout) == (125, "")
    assert "simgpu: making the simulated GPUs' shared table failed: File too large" in done.stderr
    assert "raise `ulimit -f` (file size)" in done.stderr
    reliability(
        "small-files-simulated",
        program="it limits its files to 8 KiB before its first call (`RLIMIT_FSIZE`), on the simulated GPU",
        ends="status 125 instead of SIGXFSZ",
        lost="all: the simulated GPU cannot start",
        said="the limit, and `ulimit -f`",
    )


def test_nvml_counts_its_users(compile_c, vramtrace, reliability):
    program = compile_c(PROGRAMS / "nvml_users.c", "-ldl")
    environment = vramtrace.preload_environment(vramtrace.simgpu / "libsimgpu.so")
    plain = subprocess.run([program], capture_output=True, text=True, env=environment, timeout=60)
    assert plain.stdout == "before 1 init 0 0 down 0 count 0 down 0 count 1 down 1\n"
    reliability(
        "nvml-users",
        program="two users of NVML, each with its own `nvmlInit` and `nvmlShutdown`",
        ends="on the simulated GPU as documented: `NVML_ERROR_UNINITIALIZED` before the first and after the last",
        lost="no events",
        said="nothing",
    )


def test_children_of_a_program_with_a_gpu(vramtrace, both, reliability):
    plain, recorded = both([sys.executable, PROGRAMS / "children.py"])
    lines = plain.stdout.splitlines()
    assert lines[:2] == ["spawn fine", "forkserver fine"]
    assert lines[2].startswith("fork Cannot re-initialize CUDA in forked")
    report = vramtrace.whole_report(recorded.path)
    assert len([d for d in report["devices"] if d["tensor"]["allocs"] == 1]) == 3
    reliability(
        "children-of-a-gpu-program",
        program="children by spawn, forkserver and fork of a program that uses the GPU",
        ends="as without: the forked one gets PyTorch's error",
        lost="none",
        said="three processes, one allocation each",
    )


def test_with_pytorchs_own_profiler(vramtrace, both, reliability):
    plain, recorded = both([sys.executable, PROGRAMS / "own_profiler.py"])
    allocated, _ = map(int, plain.stdout.split())
    assert vramtrace.whole_report(recorded.path)["devices"][0]["tensor"]["allocs"] == allocated
    reliability(
        "pytorchs-own-profiler",
        program="PyTorch's profiler and its recorder of memory history, both on",
        ends="as without",
        lost="none",
        said="as many allocations as PyTorch counts",
    )


def test_pluggable_allocator(vramtrace, both, tmp_path, cuda_flags, reliability):
    library = tmp_path / "plain.so"
    command = ["cc", "-shared", "-fPIC", "-o", library, PROGRAMS / "pluggable_allocator.c", *cuda_flags]
    subprocess.run(list(map(str, command)), check=True)
    plain, recorded = both([sys.executable, PROGRAMS / "pluggable.py", library])
    assert plain.stdout == "trained\n"
    driver = vramtrace.whole_report(recorded.path)["devices"][0]["driver"]
    assert driver["allocs"] > driver["frees"] > 0
    assert driver["peak_bytes"] >= 2 * 4 << 20  # weights and gradients of 4 MiB each
    reliability(
        "pluggable-allocator",
        program="PyTorch with `CUDAPluggableAllocator`",
        ends="as without",
        lost="none",
        said="every `cudaMalloc` and `cudaFree` of the allocator",
    )


def test_versions_to_come(compile_c, both, reliability):
    plain, _ = both([compile_c(PROGRAMS / "newer_versions.c", "-ldl")])
    assert plain.stdout == "".join(f"{version} 0 0 found\n" for version in (11030, 12000, 13000, 13020, 14000))
    reliability(
        "versions-to-come",
        program="asks `cuGetProcAddress` for versions of CUDA up to one that nobody has seen",
        ends="as without",
        lost="none",
        said="nothing",
    )

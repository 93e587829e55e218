# SPDX-License-Identifier: MIT
"""CUDA programs without PyTorch run on the simulated GPU, and what they took from the driver is recorded."""

import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def check_ledger(vramtrace, tmp_path):
    """check_ledger(program): record a program and compare its driver ledger with what it says itself."""

    def run(program):
        done = vramtrace.record(tmp_path / "job.vtr", program)
        assert (done.status, done.stderr) == (0, "")
        report = vramtrace.json("report", done.path)
        (device,) = report["devices"]
        (process,) = report["process_list"]
        driver = device["driver"]
        assert {
            "allocs": driver["allocs"],
            "frees": driver["frees"],
            "peak": driver["peak_bytes"],
            "left": driver["live_at_end_bytes"],
            "pinned": process["pinned"]["peak_bytes"],
            "managed": process["managed"]["peak_bytes"],
        } == done.ledger
        assert device["exact"] and device["tensor"]["allocs"] == 0
        # NVRTC and numba ask once for the driver's private tables and go on without them.
        assert set(process["unsupported"]) <= {"cuGetExportTable"}

    return run


@pytest.fixture
def run_program(check_ledger, compile_c, cuda_flags):
    """run_program(name, *flags): compile a program and check its ledger."""
    return lambda name, *flags: check_ledger([compile_c(PROGRAMS / f"{name}.c", *cuda_flags, *flags)])


def test_shared_runtime(run_program):
    run_program("with_runtime")


def test_driver_alone(run_program, vramtrace):
    run_program("with_driver", f"-L{vramtrace.simgpu}", "-lcuda")


def test_nvrtc(run_program, vramtrace):
    """The real NVRTC compiles; the simulated driver loads what it made."""
    nvrtc = pytest.importorskip("nvidia.cu13", reason="NVRTC is in PyTorch's CUDA 13 wheels")
    folder = Path(next(iter(nvrtc.__path__)))
    library = folder / "lib" / "libnvrtc.so.13"
    flags = [f"-I{folder / 'include'}", f"-L{vramtrace.simgpu}", "-lcuda", library, f"-Wl,-rpath,{library.parent}"]
    run_program("with_nvrtc", *flags)


def test_numba(check_ledger):
    pytest.importorskip("numba.cuda")
    check_ledger([sys.executable, PROGRAMS / "with_numba.py"])


def test_frames_of_a_program_without_pytorch(vramtrace, tmp_path, compile_c):
    """What is folded of its stacks is not called PyTorch's: the C library's first frames, which -v shows."""
    source = tmp_path / "alone.c"
    source.write_text(
        "int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);\n"
        "int cuMemAlloc_v2(unsigned long long *, unsigned long);\n"
        "int main(void) { void *c = 0; unsigned long long p;\n"
        "  return cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c) || cuMemAlloc_v2(&p, 1 << 20); }\n"
    )
    program = compile_c(source, f"-L{vramtrace.simgpu}", "-lcuda")
    done = vramtrace.record(tmp_path / "job.vtr", [program])
    short, whole = (vramtrace.call("peak", *options, done.path).stdout for options in ([], ["-v"]))
    assert "libc_start" in whole and "libc_start" not in short
    assert " of libraries (-v)" in short and "PyTorch" not in short

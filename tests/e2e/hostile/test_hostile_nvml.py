# SPDX-License-Identifier: MIT
"""NVML counts its users: what the recorder asks of it is not seen in what the program gets."""

import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
SAID = """\
never begun: count 1
after cuInit: count 1
after allocations: count 1
init 0
begun: count 0
begun, after allocations: count 0
shut down 0
shut down: count 1
shut down, after allocations: count 1
shut down again 1
"""
REFUSED = 6  # of the calls above


@pytest.fixture(scope="module")
def run(vramtrace, compile_c, cuda_flags, tmp_path_factory):
    """run(output, name=value ...): the program with an NVML that counts, recorded where there is an output."""
    folder = tmp_path_factory.mktemp("nvml")
    compile_c(PROGRAMS / "nvml_counting.c", "-shared", "-fPIC").rename(folder / "libnvidia-ml.so.1")
    program = compile_c(PROGRAMS / "nvml_counted.c", *cuda_flags, f"-L{vramtrace.simgpu}", "-l:libcuda.so.1", "-ldl")

    def run(output, **more):
        # simgpu's own NVML is not loaded: its folder comes last.
        env = vramtrace.preload_environment(*[vramtrace.interpose] if output else [], **more)
        env["LD_LIBRARY_PATH"] = f"{folder}:{env['LD_LIBRARY_PATH']}"
        env |= {"NVML_COUNTS": str(folder / "counts"), "VRAMTRACE_OUTPUT": str(output)}
        (folder / "counts").unlink(missing_ok=True)
        done = subprocess.run([program], env=env, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout, [int(word) for word in (folder / "counts").read_text().split()]

    return run


def test_nvml_is_given_back(vramtrace, run, tmp_path, reliability):
    plain, counts = run(None)
    assert (plain, counts) == (SAID, [1, 1, REFUSED, 0])
    recorded, (inits, ends, refused, left) = run(tmp_path / "o.vtr")
    assert recorded == plain
    assert inits == ends > 2 and (refused, left) == (REFUSED, 0)
    events = vramtrace.events(tmp_path / "o.vtr")
    told = [e for e in events if e["kind"] == "process_info"]
    assert told and all((e["size"], e["others_bytes"]) == (2 << 20, 1 << 20) for e in told)
    vramtrace.whole_report(tmp_path / "o.vtr")
    reliability(
        "nvml-counted",
        program="asks NVML before it begins, while it uses it and after it has shut it down",
        ends="the same answers",
        lost="none",
        said="complete; other processes' memory is known",
    )


def test_nvml_is_not_begun_where_nothing_is_sampled(run, tmp_path):
    assert run(tmp_path / "o.vtr", VRAMTRACE_SAMPLE_MIB="0") == (SAID, [1, 1, REFUSED, 0])

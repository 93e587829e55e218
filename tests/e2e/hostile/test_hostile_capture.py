# SPDX-License-Identifier: MIT
"""Stream captures that do not end by cuStreamEndCapture on the thread that began them: the recorder samples again."""

import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "capture_left.c"
NR_ALLOCATIONS, SIZE = 200, 256 << 20
WAYS = {
    "capture-stream-destroyed": "its stream is destroyed",
    "capture-runtime-stream-destroyed": "the runtime destroys its stream",
    "capture-primary-context-reset": "the primary context is reset",
    "capture-device-reset": "`cudaDeviceReset`",
    "capture-context-destroyed": "its context is destroyed",
    "capture-another-thread-ended-it": "another thread ends it",
    "capture-invalidated": "a synchronisation invalidates it, nobody ends it",
}


@pytest.fixture(scope="module")
def program(vramtrace, compile_c, cuda_flags):
    return compile_c(PROGRAM, *cuda_flags, f"-L{vramtrace.simgpu}", "-l:libcuda.so.1", "-lpthread")


def samples_after(events, size):
    """The driver's memory, as sampled after the first allocation of that size."""
    first = next(i for i, e in enumerate(events) if e["kind"] == "driver_alloc" and e["size"] == size)
    return [e for e in events[first:] if e["kind"] == "memory_info"]


def record_sampled(record, size):
    """A recording with samples: a machine that is busy at the wrong moment makes one dear, and the next come late."""
    for attempt in range(5):
        done = record(attempt)
        if samples_after(done.events, size):
            break
    return done


@pytest.mark.parametrize("row", WAYS)
def test_a_capture_that_nobody_ends_does_not_blind_the_recorder(vramtrace, program, tmp_path, reliability, row):
    way = row.removeprefix("capture-").replace("-", "_")

    def record(attempt):
        done = vramtrace.record(tmp_path / f"{attempt}.vtr", [program, way])
        assert (done.status, done.stdout, done.stderr) == (0, "done\n", "")
        done.events = vramtrace.events(done.path)
        return done

    done = record_sampled(record, SIZE)
    allocated = [e for e in done.events if e["kind"] == "driver_alloc" and e["size"] == SIZE]
    assert len(allocated) == NR_ALLOCATIONS
    assert samples_after(done.events, SIZE)
    vramtrace.whole_report(done.path)
    reliability(
        row,
        program=f"begins a stream capture ({WAYS[row]}), then allocates {NR_ALLOCATIONS} times",
        ends="the same",
        lost="none",
        said="complete; sampled after as before",
    )


CAPTURE_IN_TORCH = """
    import sys, time, torch
    graph, x = torch.cuda.CUDAGraph(), torch.ones(1 << 20, device="cuda")
    def raised():
        try:
            with torch.cuda.graph(graph):
                y = x + 1
                raise KeyError("in the middle of a capture")
        except KeyError:
            pass
    def synchronized():
        try:
            with torch.cuda.graph(graph):
                (x + 1).sum().item()
        except RuntimeError:
            pass
    def dropped():
        global graph
        with torch.cuda.stream(torch.cuda.Stream()):
            graph.capture_begin()
            y = x + 1
            graph.capture_end()
        del graph
    globals()[sys.argv[1]]()
    torch.cuda.empty_cache()
    for _ in range(100):
        block = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
        del block
        torch.cuda.empty_cache()
        time.sleep(0.002)
    print("done")
"""


@pytest.mark.parametrize("way", ["raised", "synchronized", "dropped"])
def test_an_exception_in_the_middle_of_pytorchs_capture(vramtrace, tmp_path, way):
    def record(attempt):
        program = [sys.executable, "-c", textwrap.dedent(CAPTURE_IN_TORCH), way]
        done = vramtrace.record(tmp_path / f"{attempt}.vtr", program)
        assert (done.status, done.stdout, done.stderr) == (0, "done\n", "")
        done.events = vramtrace.events(done.path)
        return done

    done = record_sampled(record, 128 << 20)
    assert samples_after(done.events, 128 << 20)
    blocks = [e for e in done.events if e["kind"] == "tensor_alloc" and e["size"] == 128 << 20]
    assert len(blocks) == 100
    assert not any(e["capturing"] for e in blocks)

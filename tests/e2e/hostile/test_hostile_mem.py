# SPDX-License-Identifier: MIT
"""Stacks that are switched, copied and left in the middle of PyTorch's calls: nothing is written to them, nothing is
told of a call that is gone."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness import LIMIT_S, program_environment

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def build(compile_c, vramtrace):
    """build(source, *flags): a program of C or C++ with the stand-ins of PyTorch's functions and the simulated driver."""
    standin = compile_c(PROGRAMS / "torch_standin.c", "-shared", "-fPIC", "-fexceptions")

    def run(source, *flags):
        libraries = [standin, vramtrace.simgpu / "libcuda.so.1", f"-Wl,-rpath,{standin.parent}", "-lpthread"]
        return compile_c(PROGRAMS / source, *libraries, *flags)

    return run


def untraced(vramtrace, program):
    command = [vramtrace.program, "run", "-q", "--no-record", "--simulate", "h100", "--", *map(str, program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=program_environment())


def record_alike(vramtrace, tmp_path, program):
    """The recording of a program that must end and print as it does without, whole."""
    plain = untraced(vramtrace, program)
    done = vramtrace.record(tmp_path / "o.vtr", program)
    assert (done.status, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    vramtrace.whole_report(done.path)
    return done


def nodes_of(event):
    return [frame["function"] for frame in event["python"] or () if frame.get("node")]


def told(vramtrace, done):
    """Of the allocations that the program printed as `size node first_size`: how many were told rightly, and as unknown.

    What ends in "?" may be unknown; nothing may be told wrongly.
    """
    allocations = {e["size"]: e for e in vramtrace.events(done.path) if e["kind"] == "tensor_alloc"}
    said = [line.split() for line in done.stdout.splitlines() if len(line.split()) == 3]
    assert len(said) == len(allocations) >= 100
    unknown = 0
    for size, node, first_size in said:
        event = allocations[int(size)]
        seen = (nodes_of(event) or ["-"])[0], str(event["shape"][0]) if event["shape"] else "-"
        for got, want in zip(seen, (node, first_size)):
            assert got == want.rstrip("?") or (got == "-" and want.endswith("?")), (size, node, first_size, event)
            unknown += got != want.rstrip("?")
    return len(said), unknown


STACKS = {
    "fibers": "ucontext fibers change places inside autograd nodes and operators, on stacks that are freed and made anew",
    "jump": "siglongjmp out of an operator, then allocations at the same and at deeper places of the stack",
    "jump_node": "siglongjmp out of an autograd node whose memory is then unmapped",
    "abandon": "a fiber is given up inside a node, its stack unmapped, a smaller one mapped in its place",
    "handler": "a signal handler on a stack of its own allocates inside a node",
    "threads": "a fiber begins an autograd node on one thread and ends it on another",
    "jump_pass": "siglongjmp out of backward passes, also nested, before others that end",
}


STACK_ROWS = {
    "fibers": "stacks-fibers", "jump": "stacks-jump", "jump_node": "stacks-jump-node", "abandon": "stacks-abandon",
    "handler": "stacks-handler", "threads": "stacks-threads", "jump_pass": "stacks-jump-pass",
}
ONE_ROWS = {
    "greenlet": "coroutines-greenlet", "gevent": "coroutines-gevent", "eventlet": "coroutines-eventlet",
}
SEVERAL_ROWS = {
    "greenlet": "coroutines-several-greenlet", "gevent": "coroutines-several-gevent",
    "eventlet": "coroutines-several-eventlet",
}


def check_passes(vramtrace, done):
    """The program prints `size in` or `size out` of each allocation: in a backward pass, or not. All passes end."""
    said = dict(line.split() for line in done.stdout.splitlines() if line.endswith((" in", " out")))
    open_passes, seen = [], {}
    for event in vramtrace.events(done.path):
        if event["kind"] == "phase_begin":
            open_passes.append(event["depth"])
        elif event["kind"] == "phase_end":
            assert open_passes.pop() == event["depth"]
        elif event["kind"] == "tensor_alloc":
            seen[str(event["size"])] = "in" if open_passes else "out"
    assert {size: seen[size] for size in said} == said
    assert len(open_passes) == 1, "only the last of the program's passes has no event after it"


@pytest.mark.parametrize("mode", STACKS)
def test_stacks_that_are_switched_and_left(vramtrace, build, tmp_path, reliability, mode):
    done = record_alike(vramtrace, tmp_path, [build("stacks.c"), mode])
    assert (done.status, done.stdout.splitlines()[-1]) == (0, "done")
    nr, unknown = told(vramtrace, done)
    if mode == "jump_pass":
        check_passes(vramtrace, done)
        assert unknown == 0
    nothing = "every pass ends before the next event outside it" if mode == "jump_pass" else "node and shape of each allocation are right"
    some = "node and shape are right, or unknown where the call had been left"
    reliability(STACK_ROWS[mode], program=STACKS[mode], ends="as untraced: 0", lost=f"0 of {nr}",
                said=some if unknown else nothing)


def test_exceptions_pass_every_hook(vramtrace, build, tmp_path, reliability):
    done = record_alike(vramtrace, tmp_path, [build("throws.cc", "-rdynamic", "-lstdc++")])
    assert (done.status, done.stdout.splitlines()[-1]) == (0, "caught 125")
    nr, unknown = told(vramtrace, done)
    assert unknown == 0
    events = vramtrace.events(done.path)
    began, ended = (sum(e["kind"] == f"phase_{what}" for e in events) for what in ("begin", "end"))
    assert began == ended == 75
    reliability("exceptions", program="C++ exceptions pass PyTorch's operators, nodes and backward passes, nested in each other",
                ends="as untraced: 0, all caught", lost=f"0 of {nr}", said="node, shape and phase of each allocation are right")


@pytest.mark.parametrize("library", ["greenlet", "gevent", "eventlet"])
def test_coroutines_change_places_in_backward(vramtrace, tmp_path, reliability, library):
    pytest.importorskip(library)
    done = record_alike(vramtrace, tmp_path, [sys.executable, PROGRAMS / "greenlets.py", library])
    assert (done.status, done.stdout) == (0, "20 160.0\n")
    allocations = [event for event in vramtrace.events(done.path) if event["kind"] == "tensor_alloc"]
    seen = {}
    for event in allocations:
        function = event["python"][0]["function"].rpartition(".")[2]
        seen.setdefault((function, event["shape"][0] if event["shape"][0] < 500 else 500), []).append(nodes_of(event))
    assert seen["backward", 100] == [["LeaveBackward"]] * 20
    assert all(nodes in ([], ["LeaveBackward"]) for nodes in seen["backward", 200])
    assert not any(nodes for key, all_nodes in seen.items() if key[0] != "backward" for nodes in all_nodes)
    reliability(ONE_ROWS[library], program=f"{library}'s coroutines change places inside a backward node and allocate in turn",
                ends="as untraced: 0", lost=f"0 of {len(allocations)}",
                said="the node of each allocation is right, or unknown after its coroutine was left")


@pytest.mark.parametrize("library", ["greenlet", "gevent", "eventlet"])
def test_coroutines_that_pytorch_cannot_serve(vramtrace, tmp_path, reliability, library):
    """Several in backward at once: PyTorch's own error, the same as without the recorder."""
    pytest.importorskip(library)
    program = [sys.executable, PROGRAMS / "greenlets.py", library, "3"]
    plain = untraced(vramtrace, program)
    done = vramtrace.record(tmp_path / "o.vtr", program)
    assert plain.returncode == done.status == 1
    assert "RuntimeError: device id must be non-negative" in plain.stderr
    # gevent prints when and which coroutine.
    assert re.sub(r"0x[0-9a-f]+|\S+Z", "", done.stderr) == re.sub(r"0x[0-9a-f]+|\S+Z", "", plain.stderr)
    found = vramtrace.json("report", done.path)["recording"]
    assert found["lost_events"] == 0
    reliability(SEVERAL_ROWS[library], program=f"several of {library}'s coroutines are in backward at once",
                ends="as untraced: 1, PyTorch's own error", lost="0", said="the same error")


def test_shared_thread_data(vramtrace, compile_c, cuda_flags, tmp_path, reliability):
    """A state is one thread's: another that finds it, because both have the same thread-local data, leaves it alone."""
    program = compile_c(PROGRAMS / "shared_tls.c", *cuda_flags, "-lpthread")
    done = vramtrace.record(tmp_path / "job.vtr", [program])
    assert (done.status, done.stderr) == (0, "")
    report = vramtrace.json("report", done.path)
    assert not report["recording"]["complete"]
    driver = report["devices"][0]["driver"]
    assert driver["allocs"] + driver["frees"] + report["recording"]["lost_events"] == int(done.stdout)
    assert driver["allocs"] > 1 and driver["allocs"] - driver["frees"] == 1
    reliability(
        "shared-thread-data",
        program="a thread made by `clone()` shares the thread-local data of its creator; both allocate at once",
        ends="the same: 0",
        lost="all of that thread, counted",
        said="`info`: events lost",
    )

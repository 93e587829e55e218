# SPDX-License-Identifier: MIT
"""`run --stacks full`: every tensor event of a real job has its whole native stack beside its Python stack."""

import json
import re
import statistics
import subprocess

import pytest

from harness import python

JOB = "gpt.py"


@pytest.fixture(scope="module")
def full(vramtrace, tmp_path_factory):
    output = tmp_path_factory.mktemp("full") / "job.vtr"
    done = vramtrace.record(output, python(JOB), options=["--stacks", "full"])
    assert (done.status, done.stderr) == (0, "")
    return done


@pytest.fixture(scope="module")
def allocations(vramtrace, full):
    """The tensors allocated: phase, innermost autograd node and the native stack's functions, innermost first."""
    command = [vramtrace.program, "dump", "--json", "-v", "--kind", "tensor_alloc", full.path]
    found = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for event in map(json.loads, process.stdout):
            nodes = [frame["function"] for frame in event["python"] or () if frame.get("node")]
            functions = [frame["function"] or "" for frame in event["native"] or ()]
            found.append((event["phase"], nodes[0] if nodes else None, functions))
    assert process.returncode == 0
    return found


def test_stacks_reach_the_threads_first_function(full, allocations):
    assert len(allocations) == full.ledger["allocation.all.allocated"]
    assert {functions[-1].lstrip("_") for _, _, functions in allocations} <= {"start", "clone3", "clone"}
    assert all("CachingAllocator" in functions[0] for _, _, functions in allocations)
    forward = [len(functions) for phase, _, functions in allocations if phase == "forward"]
    assert max(forward) >= 90 and statistics.median(forward) >= 64


def test_nodes_are_those_of_the_native_stack(allocations):
    """What the recorder calls the running node is what the innermost frame of a node's `apply` is called. Gradients that
    the engine casts after it have no such frame."""
    checked = 0
    for phase, node, functions in allocations:
        applied = (re.search(r"(?:^|::)(\w+)::apply\(", function) for function in functions)
        names = [match[1] for match in applied if match and match[1] != "Node"]
        if phase == "backward" and names and node:
            assert names[0] == node
            checked += 1
    assert checked >= 0.6 * sum(phase == "backward" for phase, _, _ in allocations)


def test_the_unwinder_has_been_judged(vramtrace, full):
    """The first thousand walks of a process are compared with libgcc's: a difference would be named here."""
    assert re.search(r"^native frames +rule table$", vramtrace.call("info", full.path).stdout, re.M)


def test_internals_are_folded_in_text(vramtrace, full):
    short, whole = (vramtrace.call("peak", *options, full.path).stdout for options in ([], ["-v"]))
    assert re.search(r"^ +\.\.\. \d+ frames of PyTorch \(-v\)$", short, re.M)
    assert "at::" not in short and "CachingAllocator" not in short
    assert "at::" in whole and "frames of PyTorch (-v)" not in whole

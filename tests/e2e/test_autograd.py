# SPDX-License-Identifier: MIT
"""Backward: which autograd node allocated, which line of forward made that node, and when backward ran.

PyTorch itself is the oracle: hooks around every node, and anomaly mode's tracebacks (jobs/autograd_oracle.py).
"""

import json
from collections import Counter

import pytest

from harness import JOBS


def nodes_of(event):
    """The classes of the autograd nodes in an event's stack, innermost first."""
    return [frame["function"] for frame in event["python"] or () if frame.get("node")]


def forward_of(event):
    """The frames of an event's stack that are forward's, innermost first."""
    return [frame for frame in event["python"] or () if frame.get("from_forward") and not frame.get("node")]


def made_by(event):
    """The `made_...` functions that forward was in, innermost first."""
    names = [frame["function"].rpartition(".")[2] for frame in forward_of(event)]
    return [name for name in names if name.startswith("made_")]


def own_frames(event):
    """What the node itself ran: the frames before it."""
    frames = event["python"] or []
    count = next((i for i, frame in enumerate(frames) if frame.get("node")), len(frames))
    return [frame["function"].rpartition(".")[2] for frame in frames[:count]]


def allocations(events):
    return [event for event in events if event["kind"] == "tensor_alloc"]


def in_backward(events):
    return [event for event in allocations(events) if event["phase"] == "backward"]


def share(part, whole):
    return sum(event["size"] for event in part) / sum(event["size"] for event in whole)


JOBS_WITH_GRADIENTS = ["gpt.py", "resnet50.py", "mlp.py", "llama7b.py"]


@pytest.mark.parametrize("job", JOBS_WITH_GRADIENTS)
def test_backward_is_told_by_node_and_line(recorded, events_of, job):
    """At least 95% of the bytes that backward allocates carry a node, 80% a line of the program's forward."""
    events = in_backward(events_of(recorded(job).path))
    script = str(JOBS / job)
    named = [event for event in events if nodes_of(event)]
    with_line = [event for event in events if script in [frame["file"] for frame in forward_of(event)]]
    assert share(named, events) >= 0.95
    assert share(with_line, events) >= 0.80


@pytest.mark.parametrize(
    "job", ["gpt.py --steps 2", "resnet50.py", pytest.param("llama7b.py", marks=pytest.mark.slow)]
)
def test_nodes_and_lines_are_pytorchs_own(vramtrace, recorded, job):
    script, *arguments = job.split()
    done = recorded("autograd_oracle.py", JOBS / script, *arguments)
    assert done.status == 0, done.stderr
    said = [json.loads(line[5:]) for line in done.stdout.splitlines() if line.startswith("node ")]
    events = allocations(vramtrace.events(done.path))
    assert len(events) == done.ledger["allocation.all.allocated"]
    running = {number: node for node in said for number in range(node["first"], node["last"] + 1)}
    assert running
    for number, node in running.items():
        event = events[number]
        assert nodes_of(event)[:1] == [node["name"].rpartition("::")[2]], (node, event)
        if "AccumulateGrad" in node["name"]:
            continue  # it belongs to a parameter, not to a call
        lines = [(frame["file"], frame["line"], frame["function"].rpartition(".")[2]) for frame in forward_of(event)]
        assert lines == [tuple(frame) for frame in reversed(node["frames"])], node
    # What the hooks do not see: sums of gradients, made while the node is being left.
    events = in_backward(events)
    assert share([event for event in events if nodes_of(event)], events) >= 0.95


CASES = ["plain", "twice", "function", "functions", "checkpoint", "reentrant", "double", "threads", "host", "raises", "exhausted"]


@pytest.fixture(scope="module")
def case(recorded, events_of):
    """case(name): what jobs/autograd_cases.py printed in that case, the events of it, and the process id."""

    def run(name, together=CASES):
        done = recorded("autograd_cases.py", *together)
        assert (done.status, done.stderr) == (0, "")
        events = events_of(done.path)
        places = [i for i, event in enumerate(events) if event["kind"] == "tensor_alloc"]
        said = []
        for line in done.stdout.splitlines():
            said.append(line)
            if line.startswith("case "):
                _, ended, counts = line.split(maxsplit=2)
                if ended == name:
                    first, after = json.loads(counts)
                    end = places[after] if after < len(places) else len(events)
                    return said[:-1], events[places[first] : end], events[0]["pid"]
                said = []
        raise AssertionError(f"no case {name} in {done.stdout}")

    return run


def passes(events):
    """Backward passes as [(depth, thread)], checked to end as they began."""
    began, inside = [], Counter()
    for event in events:
        if event["kind"] == "phase_begin":
            began.append((event["depth"], event["tid"]))
            inside[event["depth"], event["tid"]] += 1
        elif event["kind"] == "phase_end":
            inside[event["depth"], event["tid"]] -= 1
            assert inside[event["depth"], event["tid"]] == 0
    assert not any(inside.values())
    return began


def test_views_and_operations_in_place(case):
    """They allocate nothing in forward, and are told all the same."""
    _, events, _ = case("plain")
    assert [(nodes_of(event), made_by(event)) for event in in_backward(events)] == [
        (["SliceBackward0"], ["made_by_slice"]),
        (["ReluBackward0"], ["made_in_place"]),
        (["MmBackward0"], ["made_by_product"]),  # two products, and cuBLAS's workspace
        (["MmBackward0"], ["made_by_product"]),
        (["MmBackward0"], ["made_by_product"]),
    ]
    assert len(passes(events)) == 1


def test_two_passes_through_one_graph(case):
    _, events, _ = case("twice")
    assert len(passes(events)) == 2
    found = Counter((*nodes_of(event), *made_by(event)) for event in in_backward(events))
    assert found["GeluBackward0", "made_by_activation"] == 2
    assert set(found) == {("GeluBackward0", "made_by_activation"), ("MmBackward0", "made_by_product")}


def test_python_function(case):
    """A node that is Python has its class's name; what its own code does stands before it."""
    _, events, _ = case("function")
    (event,) = [event for event in in_backward(events) if nodes_of(event) == ["ScaleBackward"]]
    assert own_frames(event)[0] == "backward"
    assert made_by(event) == ["made_by_function"]
    assert (event["python"][0]["file"], event["phase"]) == (str(JOBS / "autograd_cases.py"), "backward")


def test_one_python_function_after_another(case):
    """What PyTorch itself allocates for a node before that runs Python is that node's, and so is all that follows."""
    _, events, _ = case("functions")
    found = [(nodes_of(event), made_by(event), own_frames(event)[:1]) for event in in_backward(events)]
    split = [(["SplitBackward"], ["made_by_split"], []), (["SplitBackward"], ["made_by_split"], ["backward"])]
    scale = [(["ScaleBackward"], ["made_by_function"], ["backward"])]
    assert found[-6:] == 2 * (scale + split)


@pytest.mark.parametrize("name", ["checkpoint", "reentrant"])
def test_activation_checkpointing(case, name):
    """What is computed anew in backward has frames of its own; its gradients lead to the same lines."""
    _, events, _ = case(name)
    anew = [event for event in in_backward(events) if "made_block" in own_frames(event)]
    assert {own_frames(event)[0] for event in anew} >= {"made_by_product"}
    assert all(nodes_of(event) for event in in_backward(events))
    gradients = [event for event in in_backward(events) if not own_frames(event)]
    assert {(nodes_of(event)[0], made_by(event)[0]) for event in gradients} == {
        ("GeluBackward0", "made_by_activation"),
        ("MmBackward0", "made_by_product"),
    }
    depths = Counter(depth for depth, _ in passes(events))
    assert depths == ({0: 2, 1: 4} if name == "reentrant" else {0: 2})


def test_gradient_of_a_gradient(case):
    """The second backward's nodes are made by the first's, and through them by a line."""
    _, events, _ = case("double")
    assert len(passes(events)) == 2
    (event, *_) = [event for event in in_backward(events) if nodes_of(event)[0] == "GeluBackwardBackward0"]
    assert nodes_of(event) == ["GeluBackwardBackward0", "GeluBackward0"]
    assert made_by(event) == ["made_by_activation"]


def test_threads_number_their_nodes_alike(case):
    _, events, _ = case("threads")
    assert len(passes(events)) == 10
    assert len({thread for _, thread in passes(events)}) == 2
    found = {(nodes_of(event)[0], made_by(event)[0]) for event in in_backward(events)}
    assert found == {("GeluBackward0", "made_by_activation"), ("ScaleBackward", "made_by_function")}


def test_backward_on_the_cpu(case):
    """On the program's own thread a node stands on forward's frames, too."""
    _, events, pid = case("host")
    assert [thread for _, thread in passes(events)] == [pid] * 2
    here = [event for event in in_backward(events) if event["tid"] == pid]
    assert here and all(nodes_of(event) == ["ToCopyBackward0"] for event in here)
    assert all(forward_of(event)[0]["function"] == "host" for event in here)


@pytest.mark.parametrize(
    "name, said",
    [
        ("raises", "caught True a hook of the program's own"),
        ("exhausted", "caught OutOfMemoryError CUDA out of memory"),
    ],
)
def test_exceptions_pass(case, name, said):
    """The program catches what it would have caught, and the pass has ended."""
    printed, events, _ = case(name)
    assert printed == [said]
    assert len(passes(events)) == 1
    if name == "exhausted":
        (event,) = [event for event in events if event["kind"] == "tensor_oom"]
        assert (event["phase"], nodes_of(event)) == ("backward", ["GeluBackward0"])
        assert made_by(event) == ["made_by_activation"]


@pytest.mark.slow
def test_compiled_function(case):
    _, events, _ = case("compiled", ["compiled"])
    inside = [event for event in in_backward(events) if event["size"] > 512]
    assert inside and all(nodes_of(event) == ["CompiledFunctionBackward"] for event in inside)
    assert all("compiled" in [frame["function"] for frame in forward_of(event)] for event in inside)


def test_phases_of_training(recorded, events_of):
    """Each step's allocations are forward, backward, optimizer; before it the model is built."""
    events = allocations(events_of(recorded("gpt.py").path))
    phases = [event["phase"] for event in events]
    first = phases.index("forward")
    assert set(phases[:first]) == {"init"} and "init" not in phases[first:]
    order = [phase for phase, before in zip(phases, [None, *phases]) if phase != before]
    assert [phase for phase in order if phase in ("backward", "optimizer")][-2:] == ["backward", "optimizer"]
    for event in events:
        files = [frame["file"] for frame in event["python"] or ()]
        if event["phase"] == "optimizer":
            assert any("/torch/optim/" in file or "/amp/" in file for file in files), event
    assert sum(event["size"] for event in events if event["phase"] == "other") < 0.01 * sum(
        event["size"] for event in events
    )


def test_holders_say_where_gradients_come_from(vramtrace, recorded):
    done = vramtrace.call("peak", recorded("gpt.py").path)
    lines = [line.strip() for line in done.stdout.splitlines()]
    at = lines.index("in backward of NllLossBackward0")
    assert lines[at + 1].startswith("from forward ") and lines[at + 1].endswith("gpt.py:74 in <module>")
    (device,) = vramtrace.json("peak", recorded("gpt.py").path)["devices"]
    (group,) = [group for group in device["groups"] if group["node"] == "NllLossBackward0"]
    assert (group["phase"], group["from_forward"]) == ("backward", True)
    assert group["site"] == {"file": str(JOBS / "gpt.py"), "line": 74, "function": "<module>"}
    assert [frame["language"] for frame in group["frames"]][0] == "autograd"


def test_frames_of_pytorch_are_folded(vramtrace, recorded):
    """In text one line counts them. -v has them with short paths, and counts what only wraps the calls of modules; -vv
    and JSON have all, with whole paths."""
    path = recorded("gpt.py").path
    short, most, whole = (vramtrace.call("peak", *options, path).stdout for options in ([], ["-v"], ["-vv"]))
    assert "frames of PyTorch (-v)" in short and "module.py" not in short
    assert " torch/nn/modules/linear.py:" in most and "(-v)" not in most
    assert "/torch/" not in most and "_call_impl" not in most
    (device,) = vramtrace.json("peak", path)["devices"]
    frames = [[frame for frame in group["frames"] if frame["function"]] for group in device["groups"]]
    wrapped = [sum(frame["function"].endswith("_call_impl") for frame in stack) for stack in frames]
    wrappers = next(number for number in wrapped if number)
    assert {frame["file"][0] for stack in frames for frame in stack if frame["file"]} == {"/"}
    counted = next(line.strip() for line in most.splitlines() if "(-vv)" in line)
    assert counted == f"... {wrappers} frames around calls of modules (-vv)"
    printed = [line for line in whole.splitlines() if "/torch/nn/modules/module.py:" in line]
    assert len(printed) > wrappers > 0 and any("_wrapped_call_impl" in line for line in printed)
    assert "(-v" not in whole

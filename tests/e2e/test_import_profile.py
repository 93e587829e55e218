# SPDX-License-Identifier: MIT
"""`import`, and commands that read a trace of PyTorch's own profiler: written by the installed one, on the simulated GPU."""

import gzip
import json
import re

import pytest

from harness import python

JOB = """
import json, sys
import torch
from torch.profiler import ProfilerActivity, profile

kept = []


def step(model, optimizer):
    loss = model(torch.zeros(512, 1024, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.zeros(1 << 20, device="cuda"))


def figures():
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


def main():
    made_before = torch.zeros(3 << 20, device="cuda"), torch.zeros(5 << 20, device="cuda")
    before = figures()
    torch.cuda.reset_peak_memory_stats()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True) as profiler:
        model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        for number in range(4):
            step(model, optimizer)
            if number == 1:
                made_before = made_before[:1]
    profiler.export_chrome_trace(sys.argv[1])
    print(json.dumps({"peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(),
                      "end": torch.cuda.memory_allocated(), "before": before[0]}))


main()
"""


@pytest.fixture(scope="module")
def profiled(vramtrace, tmp_path_factory):
    """(trace, what PyTorch counted)"""
    folder = tmp_path_factory.mktemp("profile")
    (folder / "job.py").write_text(JOB)
    done = vramtrace.record(folder / "job.vtr", python(folder / "job.py", folder / "trace.json"))
    assert done.status == 0, done.stderr
    return folder / "trace.json", json.loads(done.stdout.splitlines()[-1])


def test_figures_are_the_allocators_own(vramtrace, profiled):
    path, counted = profiled
    (device,) = vramtrace.json("report", path)["devices"]
    assert (device["tensor"]["peak_bytes"], device["tensor"]["live_at_end_bytes"]) == (counted["peak"], counted["end"])
    assert device["reserved"]["peak_bytes"] == counted["reserved"]
    assert device["driver"]["peak_bytes"] == 0  # not told


def test_what_was_there_before_is_there(vramtrace, profiled):
    path, counted = profiled
    events = vramtrace.events(path)
    first = [event for event in events if event["kind"] == "tensor_alloc" and event["python_stack"] == 0][:2]
    assert sum(event["size"] for event in first) == counted["before"]
    # The one that goes meanwhile is known by its end.
    assert {event["size"] for event in first} == {5 << 22, 3 << 22}


def test_lines_and_nodes_are_told(vramtrace, profiled):
    page = vramtrace.call("peak", "-v", "--top", "20", profiled[0]).stdout
    assert re.search(r"job\.py:\d+ in step", page) and "AddmmBackward0" in page
    assert "torch/optim/adam.py" in page
    assert "Memory grows by" in vramtrace.call("leaks", profiled[0]).stdout
    # The profiler tells a function's first line, none of the calls.
    assert "job.py:9 in step" in vramtrace.call("leaks", profiled[0]).stdout
    (device,) = vramtrace.json("report", profiled[0])["devices"]
    assert {phase["phase"] for phase in device["phases"]} >= {"backward", "optimizer"}


@pytest.mark.parametrize("command", ["report", "info", "timeline", "peak", "leaks", "frag", "oom", "dump", "advise", "whatif"])
def test_every_command_reads_it(vramtrace, profiled, command):
    done = vramtrace.call(command, profiled[0])
    assert done.returncode in (0, 1), done.stderr


def test_recording_and_compressed(vramtrace, profiled, tmp_path):
    path, counted = profiled
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    told = vramtrace.json("import", packed, "-o", tmp_path / "job.vtr")
    assert (told["kind"], told["unexplained"]) == ("pytorch_profile", 0)
    (device,) = vramtrace.json("report", tmp_path / "job.vtr")["devices"]
    assert device["tensor"]["peak_bytes"] == counted["peak"]


def test_without_stacks(vramtrace, profiled, tmp_path):
    """As profile_memory=True alone has it: which operator is known, no line."""
    trace = json.loads(profiled[0].read_text())
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event.get("cat") != "python_function"]
    (tmp_path / "t.json").write_text(json.dumps(trace))
    (device,) = vramtrace.json("report", tmp_path / "t.json")["devices"]
    assert device["tensor"]["peak_bytes"] == profiled[1]["peak"]
    assert "aten::" in vramtrace.call("peak", tmp_path / "t.json").stdout


@pytest.mark.parametrize(
    "text, why",
    [
        ('{"schemaVersion": 1, "traceEvents": []}', "no memory events of a GPU; was it recorded with profile_memory=True?"),
        ('{"traceEvents": [{"name": "[memory]", "args": 7}]}', "no memory events"),
        ('{"traceEvents": [{"name": "[memory]", "args": [1,}]}', "its event 1 is none of JSON"),
        ('{"traceEvents": [{"name": "[memory]"', "the file ends after 0 events: it is not whole"),
        ('{"traceEvents": [{"name": "' + "x" * (17 << 20) + '"}]}', "an event after 0 others has more than 16 MiB"),
        ('{"traceEvents": ' + "[" * 100000, "it is not whole"),
    ],
)
def test_what_is_no_such_trace_is_refused(vramtrace, tmp_path, text, why):
    path = tmp_path / "trace.json"
    path.write_text(text)
    done = vramtrace.call("report", path)
    assert done.returncode == 2 and why in done.stderr and not done.stdout, done.stderr


def test_one_that_is_cut_off_is_refused(vramtrace, profiled, tmp_path):
    whole = profiled[0].read_bytes()
    for part in (0.3, 0.9, 0.999):
        (tmp_path / "t.json").write_bytes(whole[: int(len(whole) * part)])
        assert "it is not whole" in vramtrace.call("report", tmp_path / "t.json").stderr
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(whole)[:-2000])
    assert vramtrace.call("report", tmp_path / "t.json.gz").returncode == 2

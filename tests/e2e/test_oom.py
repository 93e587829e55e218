# SPDX-License-Identifier: MIT
"""`oom` names the cause that a program has planted (jobs/oom/causes.py), at its line, and none that it has not."""

import subprocess

import pytest

from harness import JOBS, LIMIT_S, program_environment, python

SCRIPT = JOBS / "oom" / "causes.py"
# Verdict and cause of each job, and the job whose line it is about, if another.
CAUSES = {
    "too_big": ("too_big", "never_fits"),
    "model_too_big": ("too_big", "sum"),
    "leak": ("leak", "kept_tensors"),
    "growing_tensor": ("leak", "growing_tensor"),
    "graph_retention": ("graph_retention", "no_backward"),
    "kept_graphs": ("graph_retention", "kept_graphs"),
    "evaluation": ("graph_retention", "evaluation"),
    "one_evaluation": ("graph_retention", "evaluation"),
    "spike": ("spike", "larger_tensor"),
    "long_batch": ("spike", "larger_input"),
    "attention_matrix": ("attention_matrix", "attention_matrix"),
    "logits_fp32": ("logits_fp32", "logits_fp32"),
    "fft_upcast": ("fft_upcast", "fft_upcast"),
    "user_limit": ("user_limit", "user_limit"),
    "non_torch": ("non_torch", "non_torch"),
    "other_process": ("other_process", "other_process"),
    "fragmentation": ("fragmentation", "fragmentation"),
    "kv_cache": ("kv_cache", "kv_cache"),
    "optimizer_state": ("too_big", "optimizer_state"),
    "optimizer_temporaries": ("too_big", "optimizer_temporaries"),
    "plain_batch": ("too_big", "sum"),
    "images": ("too_big", "sum"),
    "recurrent": ("too_big", "sum"),
    "replay": ("too_big", "sum"),
    "accumulation": ("too_big", "optimizer_state"),
    "curriculum": ("too_big", "sum"),
    "handled_then_leak": ("leak", "kept_tensors"),
}
LINES = {"handled_then_leak": "leak"}
CAPACITY = 4 << 30


def planted_line(cause):
    marks = [i for i, text in enumerate(SCRIPT.read_text().splitlines(), 1) if text.endswith(f"# planted: {cause}")]
    assert len(marks) == 1, cause
    return marks[0]


@pytest.fixture(scope="module")
def ran_out(vramtrace, tmp_path_factory):
    made = {}

    def record(cause):
        if cause not in made:
            path = tmp_path_factory.mktemp(cause) / "job.vtr"
            options = ("--simulate-capacity", "4GiB")
            made[cause] = vramtrace.record(path, python("oom/causes.py", cause), options=options)
        return made[cause]

    return record


@pytest.mark.parametrize("cause", CAUSES)
def test_planted_cause_is_found(vramtrace, ran_out, cause):
    recording = ran_out(cause)
    assert recording.status == 1 and "OutOfMemoryError" in recording.stderr
    told = vramtrace.json("oom", recording.path)
    first = told["findings"][0]
    assert (first["verdict"], first["cause"]) == CAUSES[cause]
    assert first["site"]["file"] == str(SCRIPT)
    assert first["site"]["line"] == planted_line(LINES.get(cause, cause))
    # What else is said beside it would have to be true, too: these jobs have one cause each.
    assert len(told["findings"]) == 1
    # The report says the same.
    assert vramtrace.json("report", recording.path)["findings"] == told["findings"]


@pytest.mark.parametrize("cause", CAUSES)
def test_page_fits_a_screen(vramtrace, ran_out, cause):
    done = vramtrace.call("oom", ran_out(cause).path)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) <= 24
    assert all(len(line) <= 80 for line in lines), [line for line in lines if len(line) > 80]
    assert lines[1].startswith(CAUSES[cause][0] + ": ")


def test_figures_are_those_of_the_message(vramtrace, ran_out):
    """Asked, free, allocated and cached are what PyTorch's own error says."""
    recording = ran_out("attention_matrix")
    state = next(d for d in vramtrace.json("oom", recording.path)["devices"])["state"]
    message = vramtrace.call("oom", "--json", "--message", "-", input=recording.stderr, stdin=None)
    told = __import__("json").loads(message.stdout)["messages"][-1]
    assert state["capacity_bytes"] == CAPACITY
    for key, name in (("asked_bytes", "requested"), ("free_bytes", "free"), ("allocated_bytes", "allocated"),
                      ("cached_bytes", "unused")):  # fmt: skip
        assert told[name]["low"] <= state[key] <= told[name]["high"], key
    assert state["largest_fit_bytes"] <= state["free_bytes"] < state["refused_bytes"]


def test_handled_failures_are_listed_not_explained(vramtrace, ran_out):
    recording = ran_out("handled")
    assert recording.status == 0, recording.stderr
    told = vramtrace.json("oom", recording.path)
    failures = told["devices"][0]["failures"]
    assert len(failures) >= 3 and all(failure["handled"] for failure in failures)
    assert told["findings"] == [] and told["devices"][0]["nr_failures"] == len(failures)
    assert vramtrace.call("oom", "--exit-code", recording.path).returncode == 0


def test_last_failure_is_explained(vramtrace, ran_out):
    failures = vramtrace.json("oom", ran_out("handled_then_leak").path)["devices"][0]["failures"]
    assert [failure["handled"] for failure in failures] == [True] * (len(failures) - 1) + [False]
    assert vramtrace.call("oom", "--exit-code", ran_out("handled_then_leak").path).returncode == 1


def test_largest_fit_fits(vramtrace, ran_out):
    """A request as large as what `oom` says would have fitted succeeds there; 2 MiB more do not."""
    recording = ran_out("model_too_big")
    fit = vramtrace.json("oom", recording.path)["devices"][0]["state"]["largest_fit_bytes"]
    source = f"""
import torch
kept = [torch.empty(1 << 28, dtype=torch.uint8, device="cuda") for _ in range(14)]
torch.empty(FIT, dtype=torch.uint8, device="cuda")
"""
    for size, status in ((fit, 0), (fit + (2 << 20), 1)):
        done = vramtrace.call("run", "-q", "--no-record", "--simulate", "h100", "--simulate-capacity", "4GiB", "--",
                              python("x")[0], "-c", source.replace("FIT", str(size)), env=program_environment())  # fmt: skip
        assert done.returncode == status, (size, done.stderr)


def test_nothing_where_memory_sufficed(vramtrace, recorded):
    recording = recorded("mlp.py")
    assert recording.status == 0
    told = vramtrace.json("oom", recording.path)
    assert told["devices"] == [] and told["findings"] == []
    assert "did not run out" in vramtrace.call("oom", recording.path).stdout

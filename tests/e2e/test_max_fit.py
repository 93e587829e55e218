# SPDX-License-Identifier: MIT
"""`max-fit`: the answers of a sweep over all values, tries that end early and leave nothing, and what is no answer."""

import csv
import io
import json
import os
import re
import sys
from pathlib import Path

import pytest
from harness import program_environment, python

GIB = 1 << 30
CARDS = ("a100-40", "h100")


@pytest.fixture
def max_fit(vramtrace, tmp_path):
    def run(*arguments, status=0, env=None):
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        done = vramtrace.call("max-fit", *arguments, env=program_environment({"TMPDIR": str(scratch)} | (env or {})))
        assert done.returncode == status, done.stdout + done.stderr
        assert not list(scratch.glob("vramtrace-*"))
        return done

    return run


def sweep(vramtrace, card, network, last):
    """The largest batch that fits, by trying all, each to its end, unrecorded."""
    done = vramtrace.call("run", "-q", "--no-record", "--simulate", card, "--",
                          *python("batches.py", network, "--sweep", 1, last), env=program_environment())  # fmt: skip
    fitting = json.loads(done.stdout)
    assert fitting == list(range(1, len(fitting) + 1)), "memory does not grow with the batch"
    return len(fitting)


def test_the_answer_is_that_of_a_sweep(vramtrace, max_fit):
    last = 12
    done = max_fit("--json", "--max", last, "--simulate", ",".join(CARDS), "--",
                   *python("batches.py", "convolution", "{}", 1000000))  # fmt: skip
    told = json.loads(done.stdout)
    assert told["schema"] == "vramtrace/max-fit/1"
    assert [gpu["gpu"] for gpu in told["gpus"]] == list(CARDS)
    for gpu in told["gpus"]:
        best, after = gpu["at_largest"], gpu["next"]
        assert gpu["largest"] == best["value"] == sweep(vramtrace, gpu["gpu"], "convolution", gpu["largest"] + 2)
        assert 1 < gpu["largest"] < last
        assert (best["outcome"], best["stopped"]) == ("fits", True) and best["steps"] >= 3
        assert best["used_peak_bytes"] <= gpu["capacity_bytes"]
        assert sum(best["categories_at_peak"].values()) == best["allocated_peak_bytes"]
        assert (after["value"], after["outcome"]) == (gpu["largest"] + 1, "oom")
        assert after["oom"]["sentence"] and after["oom"]["asked_bytes"]
        assert after["oom"]["site"]["file"].endswith("batches.py")
    # What each try said is what was found.
    assert len({(one["gpu"], one["value"]) for one in told["tries"]}) == len(told["tries"]) < 2 * last
    for one in told["tries"]:
        largest = told["gpus"][CARDS.index(one["gpu"])]["largest"]
        assert one["outcome"] == ("fits" if one["value"] <= largest else "oom")


# Holds GiBs as told, in steps like any training; what must not happen at a try's end, and what it leaves running.
ENDLESS = """
import atexit, os, signal, subprocess, sys, torch
folder, size = sys.argv[1:]
def late(*_):
    open(f"{folder}/late-{size}", "w")
signal.signal(signal.SIGTERM, late)
atexit.register(late)
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
open(f"{folder}/{size}.pid", "w").write(f"{os.getpid()} {child.pid}")
model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters())
while True:
    model(torch.ones(int(size) * 262144, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_tries_end_early_and_leave_nothing(max_fit, tmp_path):
    """An endless program: values with what they take, one that leaves too little free, one that does not fit."""
    done = max_fit("-q", "--csv", "--values", "2,3,4", "--headroom", "30%", "--simulate", "h100",
                   "--simulate-capacity", "8GiB", "--", sys.executable, "-c", ENDLESS, tmp_path, "{}")  # fmt: skip
    assert done.stderr == ""
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["value"], row["outcome"]) for row in rows] == [("2", "fits"), ("3", "tight"), ("4", "oom")]
    fits, tight, oom = rows
    weights = 4 * (1024 * 1024 + 1024)
    for row, size in ((fits, 2), (tight, 3)):
        assert int(row["allocated_peak_bytes"]) >= 2 * size * GIB + weights  # the batch and the result
        parts = ("parameter", "gradient", "optimizer_state", "activation", "input", "workspace", "communication",
                 "temporary", "unknown")  # fmt: skip
        assert sum(int(row[part]) for part in parts) == int(row["allocated_peak_bytes"])
    assert int(tight["used_peak_bytes"]) > 0.7 * 8 * GIB >= int(fits["used_peak_bytes"])
    assert oom["allocated_peak_bytes"] == ""
    pids = [int(pid) for file in tmp_path.glob("*.pid") for pid in file.read_text().split()]
    assert len(pids) == 6
    assert not [pid for pid in pids if is_running(pid)]
    # The program that ran out of memory ended by itself, and only that one.
    assert [file.name for file in tmp_path.glob("late-*")] == ["late-4"]


# The optimizer's state is made when eight batches have been accumulated.
ACCUMULATING = """
import sys, torch
model = torch.nn.Linear(4096, 4096, bias=False).cuda()
optimizer = torch.optim.Adam(model.parameters())
for i in range(1, 1000000):
    model(torch.ones(int(sys.argv[1]) << 10, 4096, device="cuda")).sum().backward()
    if i % 8 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_a_step_is_over_when_parameters_were_updated(max_fit):
    done = max_fit("--json", "--values", "2", "--simulate", "h100", "--", sys.executable, "-c", ACCUMULATING, "{}")
    (one,) = json.loads(done.stdout)["tries"]
    assert one["stopped"] and one["categories_at_peak"]["optimizer_state"] >= 2 * 4 * 4096 * 4096


def test_not_even_the_smallest(max_fit, tmp_path):
    done = max_fit("--min", 5, "--max", 7, "--simulate", "h100", "--simulate-capacity", "8GiB", "--jobs", 1, "-o",
                   tmp_path / "kept", "--", sys.executable, "-c", ENDLESS, tmp_path, "{}", status=1)  # fmt: skip
    assert "none" in done.stdout and "5: out of memory" in done.stdout
    assert "5 out of memory" in done.stderr
    assert (tmp_path / "kept" / "5.vtr").is_dir() and (tmp_path / "kept" / "5.log").exists()


@pytest.mark.parametrize(
    "program, reason",
    [
        (("sh", "-c", "echo cannot read data-{} >&2; exit 3"), "failed with exit status 3"),
        (("sh", "-c", "kill -SEGV $$ {}"), "was ended by signal 11"),
        (("true", "{}"), "used no GPU memory"),
        (("./missing", "{}"), "failed with exit status 127"),
    ],
)
def test_failures_that_are_not_for_want_of_memory(max_fit, program, reason):
    done = max_fit("--max", 4, "--json", "--simulate", "h100", "--", *program, status=2)
    assert reason in json.loads(done.stdout)["error"]
    if "data" in program[-1]:
        assert re.search(r"\| cannot read data-[1-4]$", done.stderr, re.M)  # of the try that ended first


def test_a_gpu_is_needed(vramtrace, max_fit):
    if vramtrace.call("gpu").returncode == 0:
        pytest.skip("this machine has one")
    done = max_fit("--max", 4, "--", "true", "{}", status=2)
    assert "no GPU of NVIDIA's answers here: " in done.stderr
    assert "; '--simulate a100-40' simulates one" in done.stderr

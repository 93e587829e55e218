# SPDX-License-Identifier: MIT
"""Libraries on top of PyTorch on the simulated GPU: the recorded ledger equals what PyTorch's allocator counted.

Models have random weights and are made from their configuration: nothing is downloaded.
"""

import json
import re

import pytest

from allocator import counters
from coverage_models import CASES
from coverage_table import parameters
from harness import JOBS, python

TORCHRUN = ["-m", "torch.distributed.run", "--standalone"]
ENVIRONMENT = {"PYTHONPATH": str(JOBS), "OMP_NUM_THREADS": "1"}


@pytest.fixture
def run_job(vramtrace, tmp_path_factory):
    """run_job("script.py arguments", ...): the recording of a job of jobs/models/, which must end well."""

    def run(job, ranks=1, torchrun=False):
        script, *arguments = job.split()
        program = python(JOBS / "models" / script, *arguments)
        if torchrun:
            program[1:1] = [*TORCHRUN, f"--nproc-per-node={ranks}"]
        folder = tmp_path_factory.mktemp("model")
        done = vramtrace.record(folder / "job.vtr", program, gpu=f"{ranks}xh100", env=ENVIRONMENT, cwd=folder)
        assert done.status == 0, done.stderr
        return done

    return run


def ledgers_of(done):
    """What each rank's job printed last; ranks that share a pipe may do so in one line."""
    return [json.loads(found) for found in re.findall(r'\{"allocation[^{}]*\}', done.stdout)]


@pytest.mark.parametrize("case", parameters(CASES))
def test_ledger_equals_torch(vramtrace, run_job, case):
    done = run_job(case.job.removeprefix("../models/"), **case.options)
    ledgers = ledgers_of(done)
    report = vramtrace.json("report", done.path)
    devices = {device["pid"]: device for device in report["devices"] if device["tensor"]["allocs"]}
    assert report["recording"]["complete"]
    assert len(ledgers) == len(devices) == case.options.get("ranks", 1)
    for ledger in ledgers:
        device = devices[ledger["pid"]]
        assert device["exact"]
        assert counters(device) == {name: ledger[name] for name in counters(device)}


# A job whose shapes depend on what kernels would compute, the option by which the host computes it, and what share
# of the peak with that option its peak reaches without.
DATA_DEPENDENT = {
    "experts-grouped": ("train_transformers.py mixtral --context 2048", "--routing host", 1),
    "experts-loop": ("train_transformers.py mixtral --context 2048 --experts eager", "--routing host", 0.99),
    "boxes": ("detect.py fasterrcnn", "--proposals", 0.9),
    "masks": ("detect.py maskrcnn", "--proposals", 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("job, by_host, share", DATA_DEPENDENT.values(), ids=DATA_DEPENDENT)
def test_share_of_the_peak_without_kernels_results(run_job, job, by_host, share):
    """docs/simulation.md says how much is missing."""
    peaks = [ledgers_of(run_job(line))[0]["allocated_bytes.all.peak"] for line in (job, f"{job} {by_host}")]
    assert share <= peaks[0] / peaks[1] <= 1, peaks

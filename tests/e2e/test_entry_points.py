# SPDX-License-Identifier: MIT
"""Programs that use graphs node by node, linked modules and their variables run on the simulated GPU."""

import sys
from pathlib import Path

import pytest

JOBS = Path(__file__).parent / "jobs" / "entry_points"


@pytest.fixture
def run_job(vramtrace, tmp_path):
    """run_job(name): the job ends well, says nothing, and asked for nothing that is not simulated."""

    def run(name):
        done = vramtrace.record(tmp_path / "job.vtr", [sys.executable, JOBS / f"{name}.py"])
        assert (done.status, done.stderr) == (0, "")
        report = vramtrace.json("report", done.path)
        (process,) = report["process_list"]
        # NVRTC and numba ask once for the driver's private tables and go on without them.
        assert set(process["unsupported"]) <= {"cuGetExportTable"}
        return report

    return run


def test_torch_graphs_are_read_and_updated(run_job):
    pytest.importorskip("cuda.bindings")
    run_job("torch_graphs")


def test_cuda_core_builds_graphs(run_job):
    pytest.importorskip("cuda.core")
    run_job("cuda_core_graphs")


def test_numba_links_and_reads_variables(run_job):
    pytest.importorskip("numba.cuda")
    run_job("numba_links")

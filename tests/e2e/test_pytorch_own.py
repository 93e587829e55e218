# SPDX-License-Identifier: MIT
"""PyTorch's own tests of its CUDA allocator pass on the simulated GPU.

They are not part of PyTorch's wheels. `setup/pytorch_tests.sh` fetches those of PyTorch 2.6; $PYTORCH_TESTS names
another folder with the test_cuda.py of the installed version. Without them these tests are skipped.
"""

import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

VERSION = ".".join(torch.__version__.split(".")[:2])
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
FOLDER = Path(os.environ.get("PYTORCH_TESTS", CACHE / "vramtrace" / f"pytorch-tests-{VERSION}"))
FLAME_GRAPH = Path(f"/tmp/{os.getuid()}_flamegraph.pl")  # PyTorch downloads it when it is missing
NO_FLAMES = " and not (test_memory_snapshot and not _script and not _with_cpp)"

# Tests that run in one process: name, and what it checks. A name that begins others stands for these, too.
TOGETHER = {
    "test_memory_allocation": "one byte more is one block more",
    "test_out_of_memory_retry": "cached memory is given back before an allocation fails",
    "test_get_per_process_memory_fraction": "limits are kept",
    "test_matmul_memory_use": "equal products have equal peaks",
    "test_cuda_graph_allocator_propagates_stream": "private pools of graphs",
    "test_memory_stats_of_multiple_generators_and_graphs": "memory of generators in graphs",
    "test_memory_snapshot": "blocks, addresses and stacks of a snapshot",
    "test_memory_plots": "what is recorded for each setting of the history",
    "test_allocator_settings": "rounding and splitting by the settings, errors of bad ones",
    "test_max_split_expandable": "a limit of 120 MiB with mixed kinds of segments",
    "test_garbage_collect_expandable": "garbage collection before the limit",
    "test_raises_oom": "out of memory is raised",
    "test_notifies_oom": "out of memory is told to observers",
    "test_cpp_memory_snapshot_pickle": "snapshots from C++",
    "test_device_memory_used": "NVML and the allocator agree",
}
# Checkpoints of private pools, as CUDA graph trees use them. Tests above leave other settings of segments behind.
CHECKPOINTS = [
    "test_simple",
    "test_allocated_in_middle_of_segment",
    "test_multiple_middle_allocations",
    "test_middle_allocations_contiguous",
    "test_additional_free_following_checkpoint",
    "test_tensor_dies_after_checkpoint",
    "test_check_pool_live_allocations",
    "test_allocate_in_thread_to_pool",
    "test_resnet",
]
# It keeps 1 MiB for good, and other tests count what is left.
RAW = ["test_cachingAllocator_raw_alloc"]
SKIPPED = {"test_device_memory_used", "test_resnet"}  # where pynvml and torchvision are missing
# test_out_of_memory, test_set_per_process_memory_fraction, test_allocator_fuzz and
# test_assigning_back_deleter_fns_to_tensor are not here: they compare what kernels have computed.


@pytest.fixture
def run_own(vramtrace, tmp_path):
    """run_own(names, settings): run those tests of PyTorch in one process; returns their outcomes by name."""
    if not (FOLDER / "test_cuda.py").exists():
        pytest.skip(f"no tests of PyTorch {VERSION} in '{FOLDER}': see setup/pytorch_tests.sh")

    def run(names, settings):
        chosen = f"({' or '.join(names)})" + ("" if FLAME_GRAPH.exists() else NO_FLAMES)
        results = tmp_path / "results.xml"
        done = vramtrace.record(
            tmp_path / "own.vtr",
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull),
                *(f"--rootdir={FOLDER}", f"--junitxml={results}", FOLDER / "test_cuda.py", "-k", chosen),
            ],
            options=["--no-record"],
            env={"PYTHONPATH": str(FOLDER / "packages")} | settings,
            cwd=tmp_path,
        )
        assert done.status == 0, done.stdout
        cases = list(ElementTree.parse(results).iter("testcase"))
        return {case.get("name"): [outcome.tag for outcome in case] for case in cases}

    return run


@pytest.mark.parametrize("names", [list(TOGETHER), CHECKPOINTS, RAW], ids=["together", "checkpoints", "raw"])
@pytest.mark.parametrize("settings", ["", "expandable_segments:True"], ids=["default", "expandable"])
def test_own_allocator_tests_pass(run_own, names, settings):
    outcomes = run_own(names, {"PYTORCH_CUDA_ALLOC_CONF": settings} if settings else {})
    found = {name for name in names if any(test.startswith(name) for test in outcomes)}
    assert found == set(names), "tests of these names are gone"
    assert {name for name, outcome in outcomes.items() if outcome} <= SKIPPED

# SPDX-License-Identifier: MIT
"""What tests of `export` have in common: recordings of several kinds, and the files made of them."""

import subprocess
import sys

import pytest

from harness import TREE, python, trace_files
from shared_runs import once, shared

FAILURE = """
import torch
kept = torch.empty(1 << 20, device="cuda")
try:
    torch.empty(100 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    pass
"""


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def recorded_once(vramtrace, tmp_path_factory, name, program, gpu):
    done = once(
        shared(tmp_path_factory), ("exports", name), lambda folder: vramtrace.record(folder / "job.vtr", program, gpu=gpu)
    )
    assert done.status == 0, done.stderr
    return done.path


@pytest.fixture(scope="session")
def job(recorded):
    """Three steps of a GPT."""
    return recorded("gpt.py").path


@pytest.fixture(scope="session")
def two(vramtrace, tmp_path_factory):
    """One process on two GPUs."""
    return recorded_once(vramtrace, tmp_path_factory, "two", python("two_devices.py"), "2xh100")


@pytest.fixture(scope="session")
def ranks(vramtrace, tmp_path_factory):
    """Two ranks of data-parallel training."""
    return recorded_once(vramtrace, tmp_path_factory, "ranks", [*TORCHRUN, python("ddp.py")[1]], "2xh100")


@pytest.fixture(scope="session")
def failure(vramtrace, tmp_path_factory):
    """A request that is more than the GPU has."""
    script = shared(tmp_path_factory) / "failure.py"
    script.write_text(FAILURE)
    return recorded_once(vramtrace, tmp_path_factory, "failure", [sys.executable, script], "h100")


@pytest.fixture(scope="module")
def long(vramtrace, job, compile_c, tmp_path_factory):
    """The job's steps over and over, as one trace of a million events."""
    build = vramtrace.program.parent
    repeat = compile_c(TREE / "bench" / "trace_repeat.c", f"-I{TREE}", build / "libtracefmt.a", "-lzstd", "-lxxhash")
    path = tmp_path_factory.mktemp("long") / "long.vtr"
    subprocess.run([repeat, *trace_files(job), path, "1000000"], check=True, stdout=subprocess.DEVNULL)
    return path


def exported(vramtrace, name, path, output, *options):
    """The file made of a whole recording."""
    done = vramtrace.call("export", "-f", name, "-o", output, *options, path)
    assert (done.returncode, done.stderr) == (0, "")
    return output

# SPDX-License-Identifier: MIT
"""Fixtures of the end-to-end tests: the built vramtrace and recordings of the jobs.

The tests run the tree's own build (folder $VRAMTRACE_BUILD, else build/) with the interpreter that runs pytest,
always on the simulated GPU. Nothing here asserts a duration: the machines that run these tests are shared.
"""

import functools
import os
import subprocess
from pathlib import Path

import pytest

from harness import LIMIT_S, TREE, WITH_NAMES, Recorded, Vramtrace, program_environment, python
from packaged import Package
from shared_runs import once, shared


@pytest.fixture(scope="session")
def vramtrace():
    built = Vramtrace(Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute())
    for part in (built.program, built.interpose, built.simgpu / "libcuda.so.1"):
        if not part.exists():
            pytest.exit(f"'{part}' is not built: run `make`, or set VRAMTRACE_BUILD to its build folder", returncode=2)
    return built


@pytest.fixture(scope="session")
def package(vramtrace, tmp_path_factory):
    """The Python package, made from the same build by pip, in an environment of its own."""
    build = vramtrace.program.parent
    if not (build / "package").exists():
        pytest.exit(f"'{build / 'package'}' is missing: run `make package`", returncode=2)
    return Package(build, tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def prefix(vramtrace, tmp_path_factory):
    """Where `make install` has put everything: once for all workers, as it writes into the build folder, too."""

    def install(folder):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        command = ["make", "-C", TREE, f"O={vramtrace.program.parent}", f"PREFIX={folder}", "install"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return folder

    return once(shared(tmp_path_factory), ("prefix", vramtrace.program), install)


NAMED_JOBS = ("census/", "names", "categories/")  # recorded with the names of tensors


@pytest.fixture(scope="session")
def recorded(vramtrace, tmp_path_factory):
    """recorded(job, *arguments): the recording of a job, made once for all tests, of all workers, that read it."""

    @functools.cache
    def record(job, *arguments):
        return once(
            shared(tmp_path_factory), ("recorded", job, *arguments),
            lambda folder: vramtrace.record(
                folder / "job.vtr", python(job, *arguments), env=WITH_NAMES | {"TESTED_COMMAND": str(vramtrace.program)} if job.startswith(NAMED_JOBS) else None
            ),
        )

    return record


@pytest.fixture(scope="session")
def events_of(vramtrace):
    """events_of(recording): its events, one dictionary each, with whole stacks; read once for all tests."""
    return functools.cache(vramtrace.events)


@pytest.fixture(scope="session")
def untraced(vramtrace, tmp_path_factory):
    """untraced(job, *arguments): the same job on the same simulated GPU, not recorded."""

    def run(job, *arguments):
        done = subprocess.run(
            [vramtrace.program, "run", "-q", "--no-record", "--simulate", "h100", "--", *python(job, *arguments)],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            stdin=subprocess.DEVNULL,
            env=program_environment(),
        )
        return Recorded(None, done.returncode, done.stdout, done.stderr)

    @functools.cache
    def run_once(*job):
        return once(shared(tmp_path_factory), ("untraced", *job), lambda folder: run(*job))

    return run_once


@pytest.fixture
def record(vramtrace, tmp_path):
    """record(job, *arguments, ...): a recording of this test's own, in its folder."""

    def run(job, *arguments, name="job.vtr", **options):
        return vramtrace.record(tmp_path / name, python(job, *arguments), **options)

    return run


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory):
    """compile_c(source, *flags): build one C file with the system's compiler; returns the result's path."""
    folder = tmp_path_factory.mktemp("compiled")

    def build(source, *flags):
        result = folder / (source.stem + (".so" if "-shared" in flags else ""))
        command = [os.environ.get("CC", "cc"), "-g", "-O1", "-D_GNU_SOURCE", "-o", result, source, *flags]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return result

    return build


@pytest.fixture(scope="session")
def cuda_flags(vramtrace):
    """Compiler flags for C programs that use the shared CUDA runtime, as the build found it."""
    return (vramtrace.program.parent / "cuda.flags").read_text().split()

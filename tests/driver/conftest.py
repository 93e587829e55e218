# SPDX-License-Identifier: MIT
"""Fixtures of the tests on NVIDIA's own driver libraries; driver_runs.py says what they are about."""

import os
import subprocess
import sys

import pytest

from driver_runs import HERE, LIBRARIES, SETUP, SUITES, TREE, Runs, fetch


@pytest.fixture(scope="session", params=SUITES)
def driver(request):
    """The folder that has libcuda.so.1 and libnvidia-ml.so.1 of one driver."""
    command = (SETUP / "driver.sh", SUITES[request.param], request.param)
    return fetch(f"driver-{request.param}", ["driver.sh", "apt_apart.sh"], *command) / LIBRARIES


@pytest.fixture(scope="session")
def wheels():
    """wheels(name, requirement, ...): the folder that has these wheels, unpacked."""

    def get(name, *requirements):
        return fetch(f"driver-{name}", ["wheels_apart.sh"], SETUP / "wheels_apart.sh", sys.executable, *requirements)

    return get


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """compiled(name, *flags): a program of programs/, built by the system's compiler."""
    folder = tmp_path_factory.mktemp("driver")

    def build(name, *flags):
        source, result = HERE / "programs" / f"{name}.c", folder / name
        command = [os.environ.get("CC", "cc"), "-g", "-O1", "-Wall", f"-I{TREE}", "-o", result, source, *flags, "-ldl"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return result

    return build

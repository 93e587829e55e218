# SPDX-License-Identifier: MIT
"""A GPU is there when its driver answers, not when a device node exists: one answer for every command and the plugin."""

import shutil

import pytest

from harness import TREE, program_environment

PROGRAMS = TREE / "tests" / "e2e" / "programs"


@pytest.fixture(scope="module")
def machine(compile_c, tmp_path_factory):
    """machine(driver, *flags): the environment of a machine with the node /dev/nvidiactl, and with that driver library."""
    node = compile_c(PROGRAMS / "device_node.c", "-shared", "-fPIC")

    def build(*flags):
        folder = tmp_path_factory.mktemp("driver")
        shutil.copy(compile_c(PROGRAMS / "answering_driver.c", "-shared", "-fPIC", *flags), folder / "libcuda.so.1")
        return program_environment({"LD_PRELOAD": str(node), "LD_LIBRARY_PATH": str(folder)})

    return build


def test_a_driver_that_answers_is_a_gpu(vramtrace, machine):
    done = vramtrace.call("gpu", env=machine())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "GPU 0: Answering GPU, 8.00 GiB\nits driver is one for CUDA 12.4\n"


@pytest.mark.parametrize(
    "flags, reason",
    [("-DNONE", "its driver says that there is none: CUDA error 100"), ("-DCRASHES", "its driver crashed when it was asked")],
)
def test_a_node_without_an_answer_is_none(vramtrace, machine, flags, reason):
    done = vramtrace.call("gpu", env=machine(flags))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == f"no GPU of NVIDIA's answers here: {reason}\n"


@pytest.mark.slow
def test_a_driver_that_hangs_is_given_up(vramtrace, machine):
    done = vramtrace.call("gpu", env=machine("-DHANGS"))
    assert (done.returncode, done.stdout) == (1, "no GPU of NVIDIA's answers here: its driver has not answered for 30 s\n")


def test_every_command_takes_that_answer(vramtrace, machine, tmp_path):
    """The same machine, with a driver that answers and one that does not: what `run` and `max-fit` make of it."""
    for flags, hidden in ((), 1), (("-DNONE",), 0):
        run = ("run", "--no-record", "--simulate", "h100", "--", "true")
        assert vramtrace.call(*run, env=machine(*flags)).stderr.count("this machine has a GPU") == hidden
        fit = vramtrace.call("max-fit", "--max", "2", "-o", tmp_path / f"fit{hidden}", "--", "true", "{}", env=machine(*flags))
        assert fit.stderr.count("no GPU of NVIDIA's answers here") == 1 - hidden


def test_the_plugin_simulates_where_only_a_node_is(package, machine, tmp_path):
    """It once took a machine for one with a GPU on which the driver's library had left its node."""
    (tmp_path / "test_suite.py").write_text("import torch\ndef test_it():\n    torch.ones(1 << 20, device='cuda')\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = package.call(package.python, "-m", "pytest", "--gpu-memory", cwd=tmp_path, env=machine("-DNONE"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GPU memory (simulated h100)" in done.stdout

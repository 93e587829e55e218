# SPDX-License-Identifier: MIT
"""The pytest plugin: tests that keep their limits of GPU memory pass, others fail with the lines that took it."""

import re
import textwrap

import pytest

from harness import program_environment

SUITE = '''\
import subprocess, sys
import pytest, torch

MIB = 1 << 20
kept = []

def hold(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")

@pytest.mark.limit_gpu_memory("64 MiB")
def test_exactly_fits():
    hold(64)

@pytest.mark.limit_gpu_memory("67108863 B")
def test_one_byte_too_large():
    hold(64)

@pytest.mark.limit_gpu_memory("64 MiB")
def test_hides_its_peak():
    small, large = hold(10), hold(90)
    del large
    torch.cuda.reset_peak_memory_stats()

@pytest.mark.limit_gpu_leaks()
def test_leaks():
    kept.append(hold(3))

@pytest.mark.limit_gpu_leaks("4 MiB")
def test_leaks_little():
    kept.append(hold(4))

@pytest.mark.limit_gpu_memory("16 MiB")
def test_is_not_charged_with_what_was_there():
    hold(16)

@pytest.mark.limit_gpu_leaks()
def test_trains():
    model = torch.nn.Linear(1024, 1024, device="cuda")
    model(torch.ones(512, 1024, device="cuda")).sum().backward()

@pytest.mark.xfail(strict=True)
@pytest.mark.limit_gpu_memory("1 MiB")
def test_is_expected_to_fail():
    hold(2)

@pytest.mark.limit_gpu_memory("1 MiB")
def test_fails_for_its_own_reason():
    hold(30)
    assert kept is None

def test_without_a_gpu():
    pass
'''
HOLD, LARGE = (1 + SUITE[: SUITE.index(text)].count("\n") for text in ("return torch.empty", "small, large ="))
FAILING = {"test_one_byte_too_large", "test_hides_its_peak", "test_leaks", "test_fails_for_its_own_reason"}
PEAKS = {"test_exactly_fits": "64.0 MiB", "test_hides_its_peak": "100 MiB", "test_leaks": "3.00 MiB"}


@pytest.fixture
def run_pytest(package, tmp_path):
    """run_pytest(suite, *arguments): pytest in a folder that has a suite of this text."""

    def run(suite, *arguments, **options):
        (tmp_path / "test_suite.py").write_text(textwrap.dedent(suite))
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        return package.call(package.python, "-m", "pytest", *arguments, cwd=tmp_path, **options)

    return run


def outcomes(done):
    """Which tests failed, by pytest's own summary."""
    return set(re.findall(r"^(?:FAILED|ERROR) test_suite\.py::(\w+)", done.stdout, re.M))


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_limits_pass_and_fail_tests(run_pytest, arguments):
    done = run_pytest(SUITE, "--gpu-memory", "--gpu-memory-rows", "0", *arguments)
    assert outcomes(done) == FAILING, done.stdout + done.stderr
    assert done.returncode == 1
    assert "4 failed, 5 passed, 1 xfailed" in done.stdout
    assert done.stdout.count("test session starts") == 1
    assert "the test took 64.0 MiB of GPU memory, 1 B more than limit_gpu_memory allows" in done.stdout
    assert "the test left 3.00 MiB of GPU memory behind, 3.00 MiB more than limit_gpu_leaks allows (0 B)" in done.stdout
    line = f"90.0 MiB  test_suite.py:{HOLD} in hold, from test_suite.py:{LARGE} in test_hides_its_peak"
    assert line in done.stdout
    assert not re.search(r", from (?!test_suite\.py:)", done.stdout), done.stdout
    table = done.stdout.split("GPU memory (simulated h100)")[1]
    for name, peak in PEAKS.items():
        assert re.search(rf"^ *{peak}  test_suite\.py::{name}\b", table, re.M), table
    assert "test_without_a_gpu" not in table
    assert not done.stderr


def test_what_a_test_starts_counts(run_pytest):
    suite = """\
        import subprocess, sys
        import pytest

        @pytest.mark.limit_gpu_memory("16 MiB")
        def test_starts_a_program():
            code = "import torch; torch.empty(32 << 20, dtype=torch.uint8, device='cuda')"
            subprocess.run([sys.executable, "-c", code], check=True)
        """
    # A worker of xdist may have started it.
    environment = program_environment({"PYTEST_XDIST_WORKER": "gw0"})
    done = run_pytest(suite, "--simulate", "a100-80", "-q", env=environment)
    assert outcomes(done) == {"test_starts_a_program"}
    assert "the test took 32.0 MiB of GPU memory, 16.0 MiB more than" in done.stdout
    assert "GPU memory (simulated a100-80)" in done.stdout


def test_arguments_output_and_status_are_pytests(run_pytest, tmp_path):
    suite = """\
        def test_one_thing():
            print("to see")

        def test_other(): assert False
        """
    chosen = ["-s", "-k", "one and thing"]
    recorded = run_pytest(suite, "--gpu-memory", "--gpu-memory-recording", tmp_path / "kept 1%.vtr", *chosen)
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    assert "to see" in recorded.stdout and "1 passed, 1 deselected" in recorded.stdout
    assert "no test took any" in recorded.stdout
    assert run_pytest(suite, "--gpu-memory", "-k", "neither").returncode == 5


def test_a_suite_that_is_not_measured_says_so(run_pytest):
    suite = """\
        import pytest
        @pytest.mark.limit_gpu_memory("1 GiB")
        def test_it(): pass
        """
    done = run_pytest(suite)
    assert done.returncode == 0
    assert "1 tests have limits of GPU memory; --gpu-memory checks them" in done.stdout
    assert "GPU memory (" not in done.stdout


WRONG = "limit_gpu_memory('2')", "limit_gpu_memory()", "limit_gpu_leaks('-1 MiB')", "limit_gpu_memory('1 GiB', '2 GiB')"


@pytest.mark.parametrize("mark", WRONG)
def test_a_limit_that_is_none_is_refused(run_pytest, mark):
    done = run_pytest(f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pass\n")
    assert done.returncode == 4
    assert re.search("is not a size|takes one size", done.stderr), done.stderr


def test_an_unknown_gpu_is_refused(run_pytest):
    done = run_pytest("", "--simulate", "h1000")
    assert done.returncode == 125
    assert "unknown GPU 'h1000'" in done.stderr


def test_pytest_called_by_a_program_says_what_to_start(run_pytest, package, tmp_path):
    run_pytest("def test_it(): pass\n")
    called = "import pytest, sys; sys.exit(pytest.main(['--gpu-memory', '-q']))"
    done = package.call(package.python, "-c", called, cwd=tmp_path)
    assert done.returncode == 4 and "vramtrace run -- python PROGRAM" in done.stderr
    done = package.vramtrace("run", "-q", "--simulate", "h100", "--", package.python, "-c", called, cwd=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stderr

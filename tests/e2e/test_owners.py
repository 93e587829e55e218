# SPDX-License-Identifier: MIT
"""Whose driver memory it is: by the library that asked for it, by rules that a user can extend."""

import json
import subprocess
import sys
import textwrap

import pytest

from harness import adds_up, program_environment

MIB = 2**20

NUMBA = """
    import ctypes, torch
    from numba import cuda
    held = torch.zeros(1024, device="cuda")
    array = cuda.device_array(8 * 2**20, dtype="uint8")     # cuda-python <- numba
    driver = ctypes.CDLL("libcuda.so.1")
    assert driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(16 << 20)) == 0  # ctypes <- this
"""

# Takes memory for whoever calls it, as a vendor's library would.
LIBRARY = """
#include <cuda.h>
int take(size_t bytes);
int take(size_t bytes)
{
	CUdeviceptr p;
	return cuMemAlloc_v2(&p, bytes);
}
"""
VENDOR = """
    import ctypes, sys, torch
    held = torch.zeros(1024, device="cuda")
    vendor = ctypes.CDLL(sys.argv[1])
    vendor.take.argtypes = [ctypes.c_size_t]
    assert vendor.take(4 << 20) == 0
"""


@pytest.fixture(scope="module")
def vendor(vramtrace, compile_c, cuda_flags, tmp_path_factory):
    """A recording of a program that has a library of its own take 4 MiB."""
    folder = tmp_path_factory.mktemp("vendor")
    source = folder / "libvendor.c"
    source.write_text(LIBRARY)
    include = [flag for flag in cuda_flags if not flag.startswith(("-Wl", "/")) or flag.endswith("include")]
    link = [f"-L{vramtrace.simgpu}", "-l:libcuda.so.1"]
    library = compile_c(source, "-shared", "-fPIC", "-fno-optimize-sibling-calls", *include, *link)
    program = [sys.executable, "-c", textwrap.dedent(VENDOR), library]
    return vramtrace.record(folder / "job.vtr", program)


def by_owner(vramtrace, done, rules=None):
    """The driver memory at the peak of all owners but PyTorch."""
    assert done.status == 0, done.stderr
    env = program_environment({"VRAMTRACE_OWNERS": str(rules)} if rules else None)
    answer = vramtrace.call("report", "--json", done.path, env=env)
    assert answer.returncode == 0, answer.stderr
    (device,) = json.loads(answer.stdout)["devices"]
    adds_up(device)
    return {owner: size for owner, size in device["driver"]["by_owner_at_peak"].items() if owner != "torch"}


def test_calls_through_python_belong_to_the_python_code(vramtrace, tmp_path):
    done = vramtrace.record(tmp_path / "job.vtr", [sys.executable, "-c", textwrap.dedent(NUMBA)])
    assert by_owner(vramtrace, done) == {"numba": 8 * MIB, "program": 16 * MIB}


def test_a_library_without_a_rule_is_the_programs(vramtrace, vendor):
    assert by_owner(vramtrace, vendor) == {"program": 4 * MIB}


@pytest.mark.parametrize("rule", ["libvendor.so acme", "*/compiled*/*.so acme  # mine", "libvendor.so acme take"])
def test_a_rule_of_the_users_own(vramtrace, vendor, tmp_path, rule):
    rules = tmp_path / "owners"
    rules.write_text(f"# who is who\n\n{rule}\nlibvendor.so other never_called\n")
    assert by_owner(vramtrace, vendor, rules) == {"acme": 4 * MIB}
    done = vramtrace.call("report", "-v", vendor.path, env=program_environment({"VRAMTRACE_OWNERS": str(rules)}))
    assert "acme 4.00 MiB" in done.stdout


def test_rules_where_users_keep_them(vramtrace, vendor, tmp_path):
    (tmp_path / "vramtrace").mkdir()
    (tmp_path / "vramtrace" / "owners").write_text("libvendor.so acme\n")
    done = vramtrace.call("report", "--json", vendor.path, env=program_environment({"XDG_CONFIG_HOME": str(tmp_path)}))
    assert '"acme": 4194304' in done.stdout


@pytest.mark.parametrize(
    "text, words",
    [
        ("libvendor.so\n", "line 1: expected PATTERN OWNER, or PATTERN OWNER FUNCTION"),
        ("# fine\nlibvendor.so a b c\n", "line 2: expected PATTERN OWNER, or PATTERN OWNER FUNCTION"),
        ("libvendor.so a/b\n", "line 1: an owner's name has letters, digits and . _ + -, at most 32"),
        ("libvendor.so context\n", "line 1: 'context' and 'code' are what the driver takes itself"),
        ("".join(f"lib{i}.so owner{i}\n" for i in range(300)), "too many owners"),
    ],
)
def test_rules_that_cannot_be_right(vramtrace, vendor, tmp_path, text, words):
    rules = tmp_path / "owners"
    rules.write_text(text)
    done = vramtrace.call("report", vendor.path, env=program_environment({"VRAMTRACE_OWNERS": str(rules)}))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"vramtrace: '{rules}', " in done.stderr and words in done.stderr


def test_rules_that_are_not_there(vramtrace, vendor, tmp_path):
    env = program_environment({"VRAMTRACE_OWNERS": str(tmp_path / "no")})
    done = vramtrace.call("report", vendor.path, env=env)
    assert done.returncode == 2
    assert done.stderr == f"vramtrace: cannot open '{tmp_path / 'no'}' (VRAMTRACE_OWNERS): No such file or directory\n"
    env = program_environment({"VRAMTRACE_OWNERS": str(tmp_path)})
    done = vramtrace.call("report", vendor.path, env=env)
    assert done.returncode == 2
    assert done.stderr == f"vramtrace: cannot read '{tmp_path}' (VRAMTRACE_OWNERS): Is a directory\n"


@pytest.mark.parametrize("options", [(), ("--repeat", "2")])
def test_bad_rules_leave_the_closing_lines(vramtrace, tmp_path, options):
    """The recording is made, and said to be; the rules' fault is said once and no figure is made up."""
    rules = tmp_path / "owners"
    rules.write_text("libvendor.so\n")
    path = tmp_path / "job.vtr"
    program = [sys.executable, "-c", "import torch; held = torch.zeros(1024, device='cuda')"]
    done = subprocess.run(
        [vramtrace.program, "run", "--simulate", "h100", *options, "-o", path, "--", *program],
        capture_output=True,
        text=True,
        env=program_environment({"VRAMTRACE_OWNERS": str(rules)}),
    )
    assert done.returncode == 0
    assert f"vramtrace: recorded {path}" in done.stderr
    assert done.stderr.count("expected PATTERN OWNER") == 1
    assert "nothing recorded" not in done.stderr and "peak" not in done.stderr
    assert vramtrace.call("verify", path).returncode == 0

# SPDX-License-Identifier: MIT
"""How callers that look the driver up by name get the recorder's wrappers, and everybody else does not."""
import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).absolute()
PRELOAD = BUILD / "libinterpose.so"
CC = os.environ.get("CC", "gcc").split()
EMULATOR = os.environ.get("VRAMTRACE_EMULATOR", "").split()  # another processor's programs run in it

WITHOUT_DRIVER = """\
default cuInit: none
default cuMemAlloc_v2: none
default cudaMalloc: none
default cuptiSubscribe: none
default ncclAllReduce: none
next malloc: real
missing: none
dlerror: set
dlerror after success: clear
"""

WITH_DRIVER = """\
handle cuGetProcAddress_v2: wrapped cuGetProcAddress_v2
handle cuMemAlloc_v2: wrapped cuMemAlloc_v2
handle cuMemAlloc: wrapped cuMemAlloc
handle cuDeviceGet: real
handle cuMemHostAlloc: none
get  0 0: real
get cuGetProcAddress 12000 0: wrapped cuGetProcAddress_v2
get cuMemAlloc 3020 0: wrapped cuMemAlloc_v2
get cuMemAlloc 2000 0: wrapped cuMemAlloc
get cuMemAlloc 3020 2: wrapped cuMemAlloc_v2
get cuMemAllocAsync 11020 0: wrapped cuMemAllocAsync
get cuMemAllocAsync 11020 2: wrapped cuMemAllocAsync_ptsz
get cuDeviceGet 2000 0: real
get cuNoSuchFunction 12000 0: none
too much: 2
enough: 0 address
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    out = tmp_path_factory.mktemp("lookup")
    for args in (["lookups.c", "-o", out / "lookup", "-ldl"],
                 ["-shared", "-fPIC", "fake_driver.c", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1", "-o", out / "libcuda.so.1"],
                 ["-shared", "-fPIC", "other_dlsym.c", "-o", out / "other.so", "-ldl"]):
        subprocess.run([*CC, "-O1", "-g", *map(str, args)], cwd=HERE, check=True)
    return out


def run(programs, preload, *args):
    env = dict(os.environ, LD_PRELOAD=":".join(map(str, preload)), VRAMTRACE_OUTPUT=str(programs / "%p.vtr"))
    result = subprocess.run([*EMULATOR, programs / "lookup", *args], env=env, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result
    assert result.stderr == ""
    return result.stdout


@pytest.mark.parametrize("others", [[], ["other.so"]])
def test_without_a_driver_nothing_is_found(programs, others):
    assert run(programs, [PRELOAD, *(programs / o for o in others)]) == WITHOUT_DRIVER
    assert not list(programs.glob("*.vtr"))


@pytest.mark.parametrize("others", [[], ["other.so"]])
def test_driver_functions_are_wrapped_by_exact_name_and_version(programs, others):
    assert run(programs, [PRELOAD, *(programs / o for o in others)], programs / "libcuda.so.1") == WITH_DRIVER


def test_a_wrapped_dlsym_in_front_is_not_harmed(programs):
    """Lookups through it go past the recorder to the real functions; the program gets what it asked for."""
    out = run(programs, [programs / "other.so", PRELOAD], programs / "libcuda.so.1")
    assert "handle cuMemAlloc_v2: real" in out
    assert "enough: 0 address" in out

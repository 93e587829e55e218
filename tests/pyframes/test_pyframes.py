# SPDX-License-Identifier: MIT
"""Runs the programs of this folder under every Python interpreter found here.

Each compares captured stacks with what the interpreter itself says and ends with "N checks, M bad".
"""
import glob
import os
import re
import subprocess
import sys

import pytest

from interpreters import installed

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("VRAMTRACE_BUILD", os.path.join(HERE, "..", "..", "build"))
PROBE = os.path.join(BUILD, "pyframes", "libstackprobe.so")
UNWATCHED = os.path.join(BUILD, "pyframes", "libstackprobe-unwatched.so")
OBJECTS = os.path.join(BUILD, "pyframes", "libobjectprobe.so")
EMBEDDER = os.path.join(BUILD, "pyframes", "embedder")
PROGRAMS = ("frames", "reuse", "lifecycle", "native", "weave", "bench")
SUPPORTED = [str(path) for path, version in installed().items() if (3, 8) <= version <= (3, 14)]


def run_program(python, program, probe):
    run = subprocess.run([python, os.path.join(HERE, program + ".py")], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, universal_newlines=True, timeout=300,
                         env=dict(os.environ, PYFRAMES_LIBRARY=probe))
    print(run.stdout)
    assert run.returncode == 0, run.stdout
    if program != "bench":
        checks = re.search(r"^(\d+) checks, 0 bad$", run.stdout, re.MULTILINE)
        assert checks and int(checks.group(1)) > 100, run.stdout


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("python", SUPPORTED)
def test_frames_as_the_interpreter_shows_them(python, program):
    run_program(python, program, PROBE)


@pytest.mark.parametrize("python", SUPPORTED)
def test_objects_hold_what_the_interpreter_says(python):
    run_program(python, "objects", OBJECTS)


@pytest.mark.parametrize("program", ("frames", "reuse", "weave"))
def test_code_objects_that_cannot_be_watched(program):
    run_program(sys.executable, program, UNWATCHED)


OLD = """
import ctypes, sys
probe = ctypes.PyDLL(sys.argv[1])
probe.probe_support.restype = ctypes.c_char_p
probe.probe_start()
print(probe.probe_support().decode())
print(probe.probe_python())
"""


def test_an_interpreter_too_old_is_named():
    old = [path for path, version in installed().items() if (3, 6) <= version < (3, 8)]
    if not old:
        pytest.skip("no Python 3.6 or 3.7 here")
    said = subprocess.run([old[0], "-c", OLD, PROBE], stdout=subprocess.PIPE, universal_newlines=True,
                          check=True)
    assert re.fullmatch(r"unsupported: Python 3\.[67]\.\d+, only 3\.8 to 3\.14 are known\n1\n", said.stdout)


KEPT = "which keeps its frames in its own way"
OTHERS = {
    "3.8.12 (heads/v2.3.5:8f1f2a1, Sep 27 2022, 14:04:50) \n[Pyston 2.3.5, GCC 9.4.0]": f"3.8.12, it is Pyston, {KEPT}",
    "3.8.5+cinder (heads/cinder/3.8:f3bb8ef, Jan 5 2022) \n[GCC 8.5.0]": f"3.8.5, it is Cinder, {KEPT}",
    "3.10.5+cinder (main, Mar 1 2023) \n[GCC 11.3.1]": f"3.10.5, it is Cinder, {KEPT}",
    "3.9.10 (feeb267ead3e, Feb 16 2022)\n[PyPy 7.3.8 with GCC 10.2.1]": f"3.9.10, it is PyPy, {KEPT}",
    "3.10.8 (Tue Jun 13 2023)\n[Graal, GraalVM CE, Java 20.0.1 (amd64)]": f"3.10.8, it is GraalPy, {KEPT}",
    "3.8.1 Stackless 3.1b3 060516 (v3.8.1-slp) \n[GCC 9.3.0]": f"3.8.1, it is Stackless, {KEPT}",
    "3.9.10 (heads/nogil:b0ee2c4740, Mar 4 2022) \n[GCC 9.3.0]": "3.9.10, builds without the GIL cannot be read",
    "3.13.0 experimental free-threading build (main, Oct 8 2024, 12:37:56) [GCC 13.3.0]":
        "3.13.0, builds without the GIL cannot be read",
    "3.14.0 free-threading build (main, Oct 7 2025, 10:20:30) [GCC 14.2.0]": "3.14.0, builds without the GIL cannot be read",
    "3.11.7 | packaged by conda-forge | (main) [GCC 12.3.0]": "3.11.7, it does not export what is needed",
}


@pytest.mark.parametrize("version", OTHERS)
def test_another_implementation_is_told_by_its_version(tmp_path, version):
    """The last one is CPython, and stands for that the words are not found everywhere."""
    program = tmp_path / "impostor"
    subprocess.run([os.environ.get("CC", "cc"), "-rdynamic", "-o", program, os.path.join(HERE, "impostor.c"), "-ldl"],
                   check=True)
    said = subprocess.run([program, PROBE, version], stdout=subprocess.PIPE, universal_newlines=True, check=True)
    assert said.stdout == f"unsupported: Python {OTHERS[version]}\n"


@pytest.mark.parametrize("python", SUPPORTED)
def test_a_private_interpreter_is_found(python):
    """Loaded with RTLD_LOCAL after the recorder; only shared builds can be."""
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(python)))
    libraries = glob.glob(os.path.join(prefix, "lib", "libpython3.*.so.1.0"))
    if not libraries:
        pytest.skip("no shared library of this interpreter")
    said = subprocess.run([EMBEDDER, libraries[0], PROBE], stdout=subprocess.PIPE, universal_newlines=True,
                          env=dict(os.environ, PYTHONHOME=prefix), check=True)
    assert re.fullmatch(r"(2 frames\nthen 0\n){3}supported: 3\.\d+\.\d+\n", said.stdout)

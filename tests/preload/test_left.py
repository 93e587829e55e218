# SPDX-License-Identifier: MIT
"""Calls into the runtime, NCCL and the driver that a signal handler jumps out of: what follows is told without them."""
import json
import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).absolute()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """program(*flags): left.c with its stand-ins, compiled with these flags."""

    def build(*flags):
        out = tmp_path_factory.mktemp("left")
        cc = [os.environ.get("CC", "gcc"), "-O1", "-g", *flags]
        driver, standin = out / "libcuda.so.1", out / "libstandin.so"
        subprocess.run([*cc, "-shared", "-fPIC", HERE / "fake_driver.c", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1",
                        "-o", driver], check=True)
        subprocess.run([*cc, "-shared", "-fPIC", HERE / "left_standin.c", "-o", standin], check=True)
        subprocess.run([*cc, HERE / "left.c", "-rdynamic", "-o", out / "left", standin, driver, f"-Wl,-rpath,{out}",
                        "-lpthread"], check=True)
        return out / "left"

    return build


def events(program, tmp_path, what):
    recording = tmp_path / "o.vtr"
    env = dict(os.environ, LD_PRELOAD=str(BUILD / "libinterpose.so"), VRAMTRACE_OUTPUT=str(recording))
    done = subprocess.run([program, what], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    command = [BUILD / "vramtrace", "dump", "--json", "-v", recording]
    dump = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in dump.stdout.splitlines()], done.stdout.splitlines()


@pytest.mark.parametrize("what, flags", [("runtime", []), ("nccl", []), ("unreached", ["-DUNREACHED"])])
def test_what_follows_a_call_that_was_left(program, tmp_path, what, flags):
    found, said = events(program(*flags), tmp_path, what)
    told = {str(e["size"]): e["call"] for e in found if e["kind"] == "driver_alloc"}
    assert len(said) >= 40
    assert told == dict(line.split() for line in said)


def test_a_free_after_one_that_was_left(program, tmp_path):
    found, _ = events(program(), tmp_path, "free")
    kinds = [e["kind"] for e in found if e["kind"] in ("driver_alloc", "driver_free")]
    assert kinds == ["driver_alloc", "driver_free"] * 40

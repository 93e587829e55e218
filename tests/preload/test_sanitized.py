# SPDX-License-Identifier: MIT
"""The whole recorder, instrumented, in programs that are: no races between 32 threads, no bad access, nothing undefined.

`make sanitized` builds it (`make test-all` does so first). Cancelling threads at any instruction is left out: what
ASAN knows of a stack does not survive that. TSAN lets no fork child of threads start a thread, which the recorder does.
"""
import os
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
HOSTILE = HERE.parent / "e2e" / "hostile" / "programs"
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).absolute()
FLAGS = {"thread": "-fsanitize=thread", "address": "-fsanitize=address,undefined"}
CASES = [
    ("thread", "storm", ["COUNTS", "threads", "32", "500"]),
    ("thread", "storm", ["COUNTS", "threads", "300", "50"]),  # more than there are rings
    ("thread", "storm", ["COUNTS", "churn", "300", "5"]),
    *[("thread", "mishaps", [what]) for what in ("handler", "cancel", "exit", "atexit")],
    ("address", "storm", ["COUNTS", "threads", "32", "500"]),
    ("address", "storm", ["COUNTS", "churn", "300", "5"]),
    *[("address", "mishaps", [what]) for what in ("handler", "children", "exec", "exit", "cancel", "jump", "close")],
    *[("address", "process_lives", [what]) for what in ("storm", "daemon", "late", "vfork", "spawn", "clone", "quick_exit")],
    *[("address", "stacks", [what])
      for what in ("fibers", "jump", "jump_node", "handler", "threads", "jump_pass", "abandon")],
    ("address", "throws", ["all"]),
]
STATUS = {"exit": 3, "quick_exit": 4}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """programs(sanitizer): a folder of the instrumented programs, and the libraries to preload."""
    if not all((BUILD / f"sanitized-{kind}" / "libinterpose.so").exists() for kind in FLAGS):
        pytest.skip("`make sanitized` has not been run")
    made = {}

    def build(kind):
        if kind in made:
            return made[kind]
        out = tmp_path_factory.mktemp(kind)
        cc = [os.environ.get("CC", "gcc"), "-O1", "-g", "-Wno-free-nonheap-object", FLAGS[kind]]
        driver = out / "libcuda.so.1"
        subprocess.run([*cc, "-shared", "-fPIC", HERE / "fake_driver.c", "-Wl,-Bsymbolic",
                        "-Wl,-soname,libcuda.so.1", "-o", driver], check=True)
        for name in ("storm", "mishaps", "process_lives"):
            subprocess.run([*cc, HERE / f"{name}.c", "-o", out / name, driver, f"-Wl,-rpath,{out}", "-lpthread"],
                           check=True)
        # The calls into PyTorch that are left in the middle, with stand-ins that an exception passes.
        standin = out / "libtorch_standin.so"
        subprocess.run([*cc, "-shared", "-fPIC", "-fexceptions", HOSTILE / "torch_standin.c", "-o", standin], check=True)
        for source in ("stacks.c", "throws.cc"):
            subprocess.run([*cc, HOSTILE / source, "-o", out / source.partition(".")[0], standin, driver,
                            f"-Wl,-rpath,{out}", "-rdynamic", "-lpthread", "-lstdc++"], check=True)
        libraries = [str(BUILD / f"sanitized-{kind}" / "libinterpose.so")]
        if kind == "address":
            runtime = subprocess.run([cc[0], "-print-file-name=libasan.so"], capture_output=True, text=True)
            libraries.insert(0, os.path.realpath(runtime.stdout.strip()))
        made[kind] = out, ":".join(libraries)
        return made[kind]

    return build


@pytest.mark.parametrize("kind, program, arguments", CASES, ids=lambda value: "-".join(value)
                         if isinstance(value, list) else value)
def test_clean(programs, tmp_path, kind, program, arguments):
    folder, preload = programs(kind)
    words = [str(tmp_path / "counts") if word == "COUNTS" else word for word in arguments]
    env = dict(os.environ, LD_PRELOAD=preload, VRAMTRACE_OUTPUT=str(tmp_path / "o.vtr"), VRAMTRACE_JOB="test",
               ASAN_OPTIONS="detect_leaks=0")
    done = subprocess.run([folder / program, *words], env=env, capture_output=True, text=True, timeout=280)
    # ASAN says once that it knows little of fibers.
    assert re.sub(r"==\d+==WARNING: ASan doesn't fully support makecontext.*\n", "", done.stderr) == ""
    assert done.returncode == STATUS.get(arguments[0], 0)
    assert (tmp_path / "o.vtr").is_dir()

# SPDX-License-Identifier: MIT
"""`run --unwinder`: the same native stacks whoever walks them, and libunwind only where it can be had and does no harm."""

import json
import re
import sys
from pathlib import Path

import pytest

from harness import TREE, program_environment, python, trace_files

SOURCE = Path(__file__).parent / "unwinders" / "frames.c"
FAKE_DRIVER = TREE / "tests" / "preload" / "fake_driver.c"
UNWINDERS = ("auto", "rules", "libgcc", "libunwind")
WALKED = {"auto": "rule table", "rules": "rule table", "libgcc": "libgcc", "libunwind": "libunwind"}
WATCHED = {"auto": "libgcc", "rules": "libunwind", "libgcc": "the rule table", "libunwind": "the rule table"}


@pytest.fixture(scope="module")
def frames(vramtrace, compile_c, cuda_flags):
    return compile_c(SOURCE, *cuda_flags, f"-L{vramtrace.simgpu}", "-l:libcuda.so.1", "-lpthread", "-ldl")


@pytest.fixture(scope="module")
def library(compile_c, tmp_path_factory):
    source = tmp_path_factory.mktemp("library") / "unloaded.c"
    source.write_text("int unloaded;\n")
    return compile_c(source, "-shared", "-fPIC")


def native_stacks(vramtrace, recording, kind):
    """The native stacks of the events of that kind, in order, as places in files."""
    done = vramtrace.call("dump", "--json", "-v", "--kind", kind, recording)
    assert done.returncode == 0, done.stderr
    return [tuple((frame["module"], frame["offset"]) for frame in event["native"] or ()) for event in decoded(done)]


def decoded(done):
    return map(json.loads, done.stdout.splitlines())


def said(vramtrace, recording):
    """What info says of who walked, and of who walked as well."""
    (process,) = vramtrace.json("info", recording)["process_list"]
    return process["info"]["unwinder"], process["info"].get("unwinder_compared")


def recorded_by_all(vramtrace, folder, program, *options):
    for unwinder in UNWINDERS:
        path = folder / f"{unwinder}.vtr"
        done = vramtrace.record(path, program, options=["--unwinder", unwinder, *options])
        assert (done.status, done.stderr) == (0, "")
        by, compared = said(vramtrace, path)
        assert by == WALKED[unwinder]
        nr = int(re.fullmatch(rf"(\d+) stacks walked by {WATCHED[unwinder]} as well: 0 differed", compared)[1])
        assert nr > 20
    return [folder / f"{unwinder}.vtr" for unwinder in UNWINDERS]


def test_a_c_program_has_the_same_stacks(vramtrace, frames, tmp_path):
    first, *others = [
        native_stacks(vramtrace, path, "driver_alloc") for path in recorded_by_all(vramtrace, tmp_path, [frames])
    ]
    own = [stack for stack in first if stack and stack[0][0] == str(frames)]
    assert len(own) >= 2 * (21 + 4 + 1 + 1)
    assert max(map(len, own)) >= 22
    for other in others:
        assert other == first


def test_a_pytorch_job_has_the_same_stacks(vramtrace, tmp_path):
    paths = recorded_by_all(vramtrace, tmp_path, python("mlp.py"), "--stacks", "full")
    first, *others = [native_stacks(vramtrace, path, "tensor_alloc") for path in paths]
    assert len(first) > 300 and all(first)
    for other in others:
        assert other == first
    # What runs Python is told alike: the woven stacks are the same.
    pages = [re.sub(r"after [0-9.]+ m?s|\w+\.vtr", "", vramtrace.call("peak", "-v", path).stdout) for path in paths]
    assert len(set(pages)) == 1


def test_a_missing_libunwind_is_told(vramtrace, frames, tmp_path):
    """A file of its name that is no library: the loader looks no further."""
    (tmp_path / "libunwind.so.8").write_text("no library")
    for unwinder in ("rules", "libunwind"):
        done = vramtrace.record(
            tmp_path / f"{unwinder}.vtr",
            [frames],
            options=["--unwinder", unwinder],
            env={"LD_LIBRARY_PATH": str(tmp_path)},
        )
        assert (done.status, done.stdout, done.stderr) == (0, "done\n", "")
        by, compared = said(vramtrace, done.path)
        assert by == "rule table, because libunwind.so.8 cannot be loaded"
        assert re.fullmatch(r"\d+ stacks walked by libgcc as well: 0 differed", compared)
        assert by in vramtrace.call("info", done.path).stdout


def test_an_unloaded_library_ends_its_use(vramtrace, frames, library, tmp_path):
    done = vramtrace.record(tmp_path / "o.vtr", [frames, "unload", library], options=["--unwinder", "libunwind"])
    assert (done.status, done.stdout, done.stderr) == (0, "done\n", "")
    by, _ = said(vramtrace, done.path)
    assert by == "rule table, because libunwind would not notice that a library was unloaded"


FORKING = """
import ctypes, os
cuda, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
for _ in range(2):
    assert not cuda.cuInit(0) and not cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096))
    if os.fork():
        assert os.wait()[1] == 0
        break
"""


def test_a_forked_child_does_without(vramtrace, compile_c, tmp_path):
    """With a driver that goes on in forked children, as NVIDIA's does not."""
    driver = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic"]
    compile_c(FAKE_DRIVER, *driver).rename(tmp_path / "libcuda.so.1")
    env = program_environment({"LD_LIBRARY_PATH": str(tmp_path)})
    command = ["run", "-q", "--unwinder", "libunwind", "-o", tmp_path / "o.vtr", "--", sys.executable, "-c", FORKING]
    done = vramtrace.call(*command, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted({said(vramtrace, path)[0] for path in trace_files(tmp_path / "o.vtr")}) == [
        "libunwind",
        "rule table, because libunwind is not used in a forked child",
    ]


def test_it_is_not_loaded_unless_asked_for(vramtrace, tmp_path):
    """Neither the library nor its descriptors are in the program."""
    look = "import os, torch; torch.ones(1, device='cuda'); print('libunwind' in open('/proc/self/maps').read())"
    for unwinder, loaded in (("auto", "False\n"), ("libgcc", "False\n"), ("libunwind", "True\n")):
        program = [sys.executable, "-c", look]
        done = vramtrace.record(tmp_path / f"{unwinder}.vtr", program, options=["--unwinder", unwinder])
        assert (done.status, done.stdout) == (0, loaded)

# SPDX-License-Identifier: MIT
"""Python stacks, frame by frame and line by line, under every interpreter that is installed here."""

import json
import sys

import pytest

from harness import JOBS
from interpreters import installed

SUPPORTED = [f"3.{minor}" for minor in range(8, 15)]


def interpreter(version):
    """A CPython of that version."""
    found = [path for path, numbers in installed().items() if version == "{}.{}".format(*numbers)]
    if not found:
        pytest.skip(f"no Python {version} is installed here")
    return found[0]


@pytest.mark.parametrize("version", SUPPORTED)
def test_frames(vramtrace, tmp_path, version):
    done = vramtrace.record(tmp_path / "job.vtr", [interpreter(version), JOBS / "frames.py"])
    assert (done.status, done.stderr) == (0, "")
    expected = {line["size"]: line["frames"] for line in map(json.loads, done.stdout.splitlines())}
    events = [event for event in vramtrace.events(done.path) if event["kind"] == "driver_alloc" and not event["modelled"]]
    assert [event["size"] for event in events] == list(expected)
    for event in events:
        frames = event["python"]
        assert [(frame["file"], frame["line"]) for frame in frames] == [
            (file, line) for file, line, _ in expected[event["size"]]
        ]
        for frame, (_, _, names) in zip(frames, expected[event["size"]]):
            assert frame["function"] in names


HUGE = """
import sys, ctypes
cuda = ctypes.CDLL("libcuda.so.1")
source = "def huge(x):\\n" + "    x = x + 1\\n" * int(sys.argv[1]) + "    take(1 << 20)\\n"
context, device, address = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()

def take(size):
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0

assert cuda.cuInit(0) == cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == cuda.cuCtxSetCurrent(context) == 0
names = {"take": take}
exec(compile(source, "huge.py", "exec"), names)
names["huge"](1)
take(2 << 20)
"""


@pytest.mark.parametrize("lines", [40_000, 200_000])
def test_a_function_of_many_lines(vramtrace, tmp_path, lines):
    """Its table of lines may be longer than what a trace takes of one function: that costs the line, and no event."""
    done = vramtrace.record(tmp_path / "job.vtr", [sys.executable, "-c", HUGE, lines])
    assert (done.status, done.stderr) == (0, "")
    events = [event for event in vramtrace.events(done.path) if event["kind"] == "driver_alloc" and not event["modelled"]]
    assert [event["size"] for event in events] == [1 << 20, 2 << 20]
    (_, huge, outer), (_, last) = (event["python"] for event in events)
    assert (huge["file"], huge["function"]) == ("huge.py", "huge")
    assert huge["line"] == (lines + 2 if lines == 40_000 else 1)
    assert outer["function"] == last["function"] == "<module>"

# SPDX-License-Identifier: MIT
"""libtracefmt as others use it: installed, found by pkg-config, linked with the programs of examples/tracefmt."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import LIMIT_S

TREE = Path(__file__).resolve().parents[2]
EXAMPLES = TREE / "examples" / "tracefmt"


def shell(argv, **options):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=LIMIT_S, **options)
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def compiled(prefix, tmp_path_factory):
    """compiled(name, kind): an example, linked with the library of that kind."""
    folder = tmp_path_factory.mktemp("examples")
    environment = os.environ | {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}

    def compile_one(name, kind="shared"):
        static = ["--static"] if kind == "static" else []
        flags = shell(["pkg-config", *static, "--cflags", "--libs", "tracefmt"], env=environment).split()
        if kind == "static":
            flags = [str(prefix / "lib/libtracefmt.a") if flag == "-ltracefmt" else flag for flag in flags]
        program = folder / f"{name}-{kind}"
        warnings = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
        rpath = f"-Wl,-rpath,{prefix}/lib"
        shell([os.environ.get("CC", "cc"), *warnings, EXAMPLES / f"{name}.c", *flags, rpath, "-o", program])
        return program

    return compile_one


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_reading(vramtrace, recorded, compiled, kind):
    done = recorded("gpt.py", "--steps", "2")
    (trace,) = done.path.glob("*.vtr")
    lines = shell([compiled("peak", kind), trace]).splitlines()
    report = vramtrace.json("report", done.path)
    assert lines[0].split()[:3] == ["GPU", "0:", str(report["devices"][0]["tensor"]["peak_bytes"])]
    assert lines[-1] == f"{report['recording']['events']} events, 0 lost"


def test_reading_what_is_damaged(recorded, compiled, tmp_path):
    done = recorded("gpt.py", "--steps", "2")
    (trace,) = done.path.glob("*.vtr")
    copy = Path(shutil.copy(trace, tmp_path))
    damaged = bytearray(copy.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    copy.write_bytes(damaged)
    read = subprocess.run([compiled("peak"), copy], capture_output=True, text=True)
    assert read.returncode == 1
    assert read.stderr.startswith("peak: ")
    (tmp_path / "no.vtr").write_bytes(b"nothing")
    read = subprocess.run([compiled("peak"), tmp_path / "no.vtr"], capture_output=True, text=True)
    assert read.returncode == 2
    assert "no.vtr', byte 0: " in read.stderr


def test_writing(vramtrace, compiled, tmp_path):
    """A log of 20,000 lines becomes a recording that vramtrace explains, with the sums that the log has."""
    chance, live, lines, allocated, peak = random.Random(5), {}, [], 0, 0
    for number in range(20_000):
        if live and chance.random() < 0.48:
            address = chance.choice(list(live))
            size, _ = live.pop(address)
            allocated -= size
            lines.append(f"{number / 1e3} free {address:x}")
        else:
            address, size = 0x7F0000000000 + number * 4096, chance.choice([512, 4096, 1 << 20])
            live[address] = size, f"pool_{chance.choice('abc')}"
            allocated += size
            lines.append(f"{number / 1e3} alloc {address:x} {size} {live[address][1]}")
        peak = max(peak, allocated)
    recording = tmp_path / "log.vtr"
    recording.mkdir()
    shell([compiled("from_log"), recording / "here.1.1.vtr"], input="\n".join(lines) + "\n")
    assert "whole: 20000 events" in shell([vramtrace.program, "verify", recording])
    device = vramtrace.json("report", recording)["devices"][0]
    assert (device["driver"]["peak_bytes"], device["driver"]["live_at_end_bytes"]) == (peak, allocated)
    again = subprocess.run([compiled("from_log"), recording / "here.1.1.vtr"], input="", capture_output=True, text=True)
    assert (again.returncode, "File exists" in again.stderr) == (2, True)


def test_the_header_is_for_cpp_too(prefix, tmp_path):
    source = tmp_path / "program.cc"
    source.write_text("#include <tracefmt/tracefmt.h>\nint main() { return tfmt_strerror(0) == nullptr; }\n")
    program = tmp_path / "program"
    shell(["c++", "-Wall", "-Wextra", "-Werror", f"-I{prefix}/include", source, f"-L{prefix}/lib", "-ltracefmt", "-o", program])
    shell([program], env=os.environ | {"LD_LIBRARY_PATH": f"{prefix}/lib"})


def test_exports_are_what_the_header_declares(prefix):
    header = (prefix / "include/tracefmt/tracefmt.h").read_text()
    exported = shell(["nm", "-D", "--defined-only", prefix / "lib/libtracefmt.so.1"]).splitlines()
    names = {line.split()[-1].split("@")[0] for line in exported} - {"TRACEFMT_1"}
    assert names
    assert all(f"{name}(" in header for name in names)
    assert {"tfmt_reader_open", "tfmt_writer_open", "tfmt_seal"} <= names

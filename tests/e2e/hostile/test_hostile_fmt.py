# SPDX-License-Identifier: MIT
"""Traces made to hurt who reads them, and recordings as a power cut leaves them."""

import json
import os
import re
import resource
import signal
import struct
import subprocess
from pathlib import Path

import pytest

from harness import TREE, trace_files

PROGRAMS = Path(__file__).parent / "programs"
MIB = 1 << 20
READERS = ("info", "verify", "report", "peak", "leaks", "timeline", "frag", "oom", "advise", "dump", "diff")
BEYOND = re.compile(r"beyond what a reader takes, in the frame at offset \d+: (.*) \(at byte \d+\)")


@pytest.fixture(scope="module")
def write_trace(vramtrace, compile_c, tmp_path_factory):
    """write_trace(program, *arguments): the trace that one of the programs writes."""
    library = vramtrace.program.parent / "libtracefmt.a"

    def write(program, *arguments):
        built = compile_c(PROGRAMS / f"{program}.c", f"-I{TREE}", library, "-lzstd")
        path = tmp_path_factory.mktemp(program) / "made.vtr"
        subprocess.run([built, path, *map(str, arguments)], check=True)
        return path

    return write


def read(vramtrace, command, path, memory):
    """What a command says of a trace in so many bytes of address space: (status, bytes on stdout, stderr)."""
    paths = [path, path] if command == "diff" else [path]
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory))  # noqa: E731
    with open(os.devnull if command == "dump" else path.with_suffix(".out"), "w+b") as out:
        done = subprocess.run([vramtrace.program, command, *paths], stdout=out, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, preexec_fn=limit, timeout=600)  # fmt: skip
        return done.returncode, out.seek(0, os.SEEK_END), done.stderr


def test_definition_bomb(vramtrace, write_trace, reliability):
    """64 bytes of definitions for each byte of the trace, and 64 MiB: more is refused, and info prints a mebibyte."""
    path = write_trace("definition_bomb", 20000)
    size = path.stat().st_size
    assert size < 3 * MIB and 20000 * 64900 > 1200 * MIB
    for command in READERS:
        status, printed, said = read(vramtrace, command, path, 64 * size + 64 * MIB + 256 * MIB)
        assert BEYOND.search(said) and "definitions were refused" in said, (command, said)
        assert printed < 2 * MIB and status in (1, 2), command
    info = json.loads(subprocess.run([vramtrace.program, "info", "--json", path], capture_output=True).stdout)
    shown = info["process_list"][0]
    assert len(shown["notes"]) == 16 and shown["values_left_out"] > 1000 and not shown["complete"]
    reliability(
        "definition-bomb",
        program="none: 2 MB of a trace that define 1.3 GB of text",
        ends="each command reads it in 64 times the file's bytes and 64 MiB; exit status 1 or 2",
        lost="0",
        said="`definitions were refused`, with the byte offset; `info` prints 1 MiB and `values left out`",
    )


def test_deep_stack(vramtrace, write_trace, reliability):
    """A chain of a million frames: stacks are cut at 4096, and every command comes to its end."""
    path = write_trace("deep_stack", 1_000_000, 2000)
    for command in READERS:
        status, _, said = read(vramtrace, command, path, 1024 * MIB)
        assert BEYOND.search(said) and "stacks of more than 4096 frames were cut" in said, (command, said)
        assert status in (1, 2), command
    with subprocess.Popen([vramtrace.program, "dump", "--json", "-v", path], stdout=subprocess.PIPE) as dump:
        native = json.loads(next(dump.stdout))["native"]
        dump.kill()
    assert len(native) <= 4096 and native[-1]["cut"] % 4096 == 1
    reliability(
        "deep-stack",
        program="none: 5 MB of a trace with a stack of 1,000,000 frames and 2,000 tensors",
        ends="each command reads it in 1 GiB of address space; exit status 1 or 2",
        lost="0",
        said="`stacks of more than 4096 frames were cut`, with the byte offset",
    )


def is_whole(slot, position):
    """Whether a record of a ring file is what a hook left there (tracefmt/FORMAT.md, section 7)."""
    check = position + 1
    words = struct.unpack("<7QI", slot[:60])
    for a, b in zip(words[::2], words[1::2]):
        check = check + a & 2**64 - 1
        check = ((check << 29 & 2**64 - 1 | check >> 35) ^ b) * 0x9E3779B97F4A7C15 & 2**64 - 1
    return check >> 32 == struct.unpack("<I", slot[60:])[0]


def test_power_cut(vramtrace, compile_c, cuda_flags, tmp_path, reliability):
    """A page of events never reached the disk: they are told from events, counted and said; all others are there."""
    program = compile_c(PROGRAMS / "power_cut.c", *cuda_flags)
    env = vramtrace.preload_environment(vramtrace.interpose, vramtrace.simgpu / "libcuda.so.1",
                                        VRAMTRACE_OUTPUT=tmp_path / "job.vtr", VRAMTRACE_RINGS="folder")  # fmt: skip
    assert subprocess.run([program], env=env).returncode == -signal.SIGKILL
    (path,) = trace_files(tmp_path / "job.vtr")
    ring = bytearray(path.with_suffix(".ring").read_bytes())
    first, _, capacity, _ = struct.unpack_from("<QQII", ring, 40)
    (head,) = struct.unpack_from("<Q", ring, first)
    (tail,) = struct.unpack_from("<Q", ring, first + 64)
    before = verified(vramtrace, path)
    assert before["events"] >= 2000 and before["lost_events"] == 0 and head - tail - 1 <= before["joined_events"]  # one names the thread
    page = first + 4096 + (head - 1) % capacity * 64 & ~4095
    at = lambda position: first + 4096 + position % capacity * 64  # noqa: E731
    assert all(is_whole(ring[at(p) : at(p) + 64], p) for p in range(max(tail, head - capacity), head))
    torn = sum(page <= at(p) < page + 4096 for p in range(max(tail, head - capacity), head))
    assert torn
    ring[page : page + 4096] = bytes(4096)
    path.with_suffix(".ring").write_bytes(ring)
    after = verified(vramtrace, path)
    assert after["lost_events"] == torn and after["verdict"] == "damaged"
    assert after["events"] == before["events"] - torn + 1, "one of them a LOST"
    at_byte = min(at(p) for p in range(tail, head) if page <= at(p) < page + 4096)
    assert f"its ring file is torn from its byte {at_byte} on: {torn} events" in after["error"]
    assert "not whole" in vramtrace.call("report", path).stdout
    reliability(
        "power-cut",
        program="is killed; a page of its ring file is empty then, as after a power cut",
        ends="as without the recorder",
        lost="those of the page, counted",
        said="`verify`: `its ring file is torn from its byte N on`, and how many events",
    )


def verified(vramtrace, path):
    """What verify says of a trace."""
    return json.loads(vramtrace.call("verify", "--json", path).stdout)["traces"][0]

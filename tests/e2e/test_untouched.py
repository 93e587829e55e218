# SPDX-License-Identifier: MIT
"""A traced program prints, returns and ends exactly as an untraced one on the same (simulated) device.

Its environment has the variables that preload the recorder, and a thread more: these are how it is traced.
"""
import os
import pty
import re
import subprocess

import pytest

from harness import JOBS, LIMIT_S, WITH_NAMES, program_environment, python

BEHAVIOURS = re.findall(r"^def (\w+)\(\):$", (JOBS / "untouched.py").read_text(), re.MULTILINE)
EXACT_HEAP = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}  # else freed blocks may count as used
SEES_ADDRESSES = ("fault",)  # the interpreter prints its thread's


def run_argv(vramtrace, recording, behaviour):
    """The command line with the recorder, or without it if there is no recording."""
    how = ["-o", recording] if recording else ["--no-record"]
    return [vramtrace.program, "run", "-q", "--simulate", "h100", *how, "--", *python("untouched.py", behaviour)]


def outcome(vramtrace, recording, behaviour):
    done = subprocess.run(
        [str(word) for word in run_argv(vramtrace, recording, behaviour)],
        input=b"some\nlines\nof input",
        capture_output=True,
        timeout=LIMIT_S,
        env=program_environment(EXACT_HEAP | WITH_NAMES),
    )
    texts = done.stdout, done.stderr
    if behaviour in SEES_ADDRESSES:
        texts = tuple(re.sub(rb"0x[0-9a-f]+", b"0x", text) for text in texts)
    return done.returncode, *texts


@pytest.mark.parametrize("behaviour", [b for b in BEHAVIOURS if b != "terminal"])
def test_output_and_status_are_those_of_an_untraced_run(vramtrace, tmp_path, behaviour):
    traced = outcome(vramtrace, tmp_path / "job.vtr", behaviour)
    assert traced == outcome(vramtrace, None, behaviour)
    assert list(tmp_path.glob("job.vtr/*")), "nothing was recorded"


def on_terminal(argv):
    """What a terminal shows of a command, and how that ends."""
    pid, terminal = pty.fork()
    if not pid:
        os.execve(argv[0], [str(word) for word in argv], program_environment({"TERM": "dumb"} | WITH_NAMES))
    os.write(terminal, b"an answer\n")
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # the other side is closed
            break
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown


def test_a_program_on_a_terminal(vramtrace, tmp_path):
    traced = on_terminal(run_argv(vramtrace, tmp_path / "job.vtr", "terminal"))
    assert traced == on_terminal(run_argv(vramtrace, None, "terminal"))
    assert b"True True True" in traced[1] and traced[0] == 0

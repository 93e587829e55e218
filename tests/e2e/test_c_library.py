# SPDX-License-Identifier: MIT
"""Programs that are linked with another C library than glibc are refused before they start."""

import os
import shutil
import subprocess

import pytest

from harness import program_environment

PROGRAM = '#include <stdio.h>\nint main(void) { puts("started"); return 0; }\n'


@pytest.fixture(scope="module")
def musl(tmp_path_factory):
    folder = tmp_path_factory.mktemp("musl")
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["musl-gcc", "-o", folder / "program", folder / "program.c"], check=True)
    (folder / "script").write_text(f"#!{folder}/program -x\n")
    (folder / "by_env").write_text("#!/usr/bin/env program\n")
    for name in ("script", "by_env"):
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("options", [(), ("--simulate", "h100"), ("--exec",)])
@pytest.mark.parametrize("how", ["path", "name", "script", "by_env"])
def test_musl_is_refused(vramtrace, musl, tmp_path, how, options):
    word = "program" if how == "name" else musl / ("program" if how == "path" else how)
    env = program_environment({"PATH": f"{musl}:{os.environ['PATH']}"})
    done = vramtrace.call("run", *options, "-o", tmp_path / "x.vtr", "--", word, env=env)
    assert (done.returncode, done.stdout) == (125, "")
    assert f"cannot record '{word}': it is linked with musl ('/lib/ld-musl-" in done.stderr
    assert not (tmp_path / "x.vtr").exists()


def test_other_programs_start(vramtrace, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho started\n")
    script.chmod(0o755)
    static = tmp_path / "static"
    (tmp_path / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", "-static", "-o", static, tmp_path / "program.c"], check=True)
    for program in (script, static, shutil.which("echo")):
        done = vramtrace.call("run", "-q", "-o", tmp_path / "x.vtr", "--", program, "started")
        assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr

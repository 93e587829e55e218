# SPDX-License-Identifier: MIT
"""The last lines of `run`: at most twelve on stderr, true, and worth reading."""

import re
import subprocess

import pytest

from harness import LIMIT_S, program_environment, python, trace_files

LINES_MAX = 12


@pytest.fixture
def closing(vramtrace, tmp_path):
    """closing(program, ...): record it; returns status, the lines of `run` without their prefix, and other stderr."""

    def run(program, output="job.vtr", env=None):
        argv = [vramtrace.program, "run", "--simulate", "h100", "-o", output, "--", *program]
        done = subprocess.run(
            [str(word) for word in argv],
            cwd=tmp_path,
            env=program_environment(env),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_S,
        )
        lines = done.stderr.splitlines()
        ours = [line.removeprefix("vramtrace: ") for line in lines if line.startswith("vramtrace: ")]
        assert len(ours) <= LINES_MAX
        return done.returncode, ours, [line for line in lines if not line.startswith("vramtrace: ")]

    return run


def test_what_was_recorded(vramtrace, closing, tmp_path):
    status, lines, others = closing(python("ending.py", "return"))
    report = vramtrace.json("report", tmp_path / "job.vtr")
    (trace,) = trace_files(tmp_path / "job.vtr")
    assert (status, others) == (0, [])
    assert re.fullmatch(rf"recorded job\.vtr \(.* KiB, {report['recording']['events']} events\)", lines[0])
    assert re.fullmatch(r"GPU 0 \(simulated\): peak 40\.0 MiB allocated, 40\.0 MiB reserved of 79\.2 GiB", lines[1])
    assert lines[2:] == ["next: vramtrace report job.vtr"]
    assert not trace.with_suffix(".ring").exists()


def test_name_that_needs_quotes(closing, tmp_path):
    (tmp_path / "the folder").mkdir()
    _, lines, _ = closing(python("ending.py", "return"), output="the folder/it's.vtr")
    assert lines[-1] == r"next: vramtrace report 'the folder/it'\''s.vtr'"
    done = subprocess.run(["sh", "-c", "ls " + lines[-1].split(" ", 3)[3]], cwd=tmp_path, capture_output=True, text=True)
    assert "job" in done.stdout


def test_out_of_memory_names_the_holders(closing):
    status, lines, _ = closing(python("fill_until_oom.py"))
    assert status == 1
    (at,) = [i for i, line in enumerate(lines) if line.startswith("out of memory on GPU 0: ")]
    holders = lines[at + 1 : -1]
    assert 1 <= len(holders) <= 3
    for line in holders:
        assert re.fullmatch(r" +[0-9.]+ [KMG]iB  allocated at .*fill_until_oom\.py:\d+ in .*", line)


def test_survived_out_of_memory_is_no_end(closing, tmp_path):
    """A program that got over it did not end for it."""
    script = tmp_path / "survive.py"
    script.write_text(
        "import torch\n"
        "try:\n"
        "    torch.empty(1 << 40, device='cuda')\n"
        "except torch.OutOfMemoryError:\n"
        "    torch.empty(1 << 20, device='cuda')\n"
    )
    status, lines, _ = closing(python(script))
    assert status == 0
    assert not any("out of memory" in line for line in lines)


def test_generation_of_this_job(closing, tmp_path):
    """The lines are about what this job has written, not about what lies there."""
    closing(python("ending.py", "return"))
    _, lines, _ = closing(python("ending.py", "return"))
    assert lines[0].startswith("recorded job.vtr/g2 (") and lines[-1] == "next: vramtrace report job.vtr/g2"


def test_several_processes(closing):
    ten = " ".join(map(str, python("ending.py", "return")))
    _, lines, _ = closing(["sh", "-c", " & ".join([ten] * 3) + " & wait"])
    assert sum("GPU 0" in line for line in lines) == 3
    assert all(re.match(r"pid \d+, GPU 0", line) for line in lines if "GPU" in line)


def test_other_ranks_speak_for_themselves(closing, tmp_path):
    """Under a launcher each `run` tells of its own program only."""
    env = {"SLURM_JOB_ID": "1"}
    closing(python("ending.py", "return"), env=env | {"RANK": "0"})
    _, lines, _ = closing(python("ending.py", "return"), env=env | {"RANK": "1"})
    assert [line.split(":")[0] for line in lines if "GPU" in line] == ["rank 1, GPU 0 (simulated)"]
    assert len(trace_files(tmp_path / "job.vtr")) == 2

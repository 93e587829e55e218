# SPDX-License-Identifier: MIT
"""Ends that come in the middle of things."""

from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "programs"


def test_exit_among_threads(vramtrace, compile_c, cuda_flags, tmp_path, reliability):
    """What the threads had allocated before the end is there, and the program ends as it wanted to."""
    program = compile_c(PROGRAMS / "exits_among_threads.c", *cuda_flags, "-lpthread")
    done = vramtrace.record(tmp_path / "job.vtr", [program])
    assert (done.status, done.stdout, done.stderr) == (7, "", "")
    (device,) = vramtrace.whole_report(done.path)["devices"]
    assert device["driver"]["allocs"] > 100
    assert 0 <= device["driver"]["allocs"] - device["driver"]["frees"] <= 1 + 8
    reliability(
        "exit-among-threads",
        program="eight threads allocate and free while main calls `exit(7)`",
        ends="the same: 7",
        lost="0",
        said="nothing: complete",
    )

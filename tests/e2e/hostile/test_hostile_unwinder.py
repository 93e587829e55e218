# SPDX-License-Identifier: MIT
"""libunwind, where it is asked for, keeps a pipe open in the program: one that takes its descriptors gets them."""

from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "descriptors_taken.c"


@pytest.mark.parametrize("row", ["descriptors-taken-auto", "descriptors-taken-libunwind"])
def test_descriptors_that_the_program_takes_are_its_own(vramtrace, compile_c, cuda_flags, tmp_path, reliability, row):
    unwinder = row.removeprefix("descriptors-taken-")
    program = compile_c(PROGRAM, *cuda_flags, f"-L{vramtrace.simgpu}", "-l:libcuda.so.1")
    done = vramtrace.record(
        tmp_path / "o.vtr", [program, tmp_path / "file"], options=["--unwinder", unwinder]
    )
    assert (done.status, done.stdout, done.stderr) == (0, "nobody else has touched them\n", "")
    (process,) = vramtrace.json("info", done.path)["process_list"]
    said = process["info"]["unwinder"]
    if unwinder == "auto":
        assert said == "rule table"
    else:
        assert said == "rule table, because the program has closed libunwind's descriptors"
    vramtrace.whole_report(done.path)
    reliability(
        row,
        program=f"closes all descriptors and opens files in their place (`--unwinder {unwinder}`)",
        ends="the same, its files untouched",
        lost="none",
        said=f"complete; native frames by {said}",
    )

# SPDX-License-Identifier: MIT
"""torch.distributions with its argument checks, which read on the host what kernels would have computed."""

import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "distributions.py"


def test_argument_checks_pass(vramtrace, tmp_path, reliability):
    """What nobody knows is taken to be valid, and each place is told as a decision by a computed value."""
    recorded = vramtrace.record(tmp_path / "job.vtr", [sys.executable, PROGRAM])
    assert recorded.status == 0, recorded.stderr
    assert recorded.stdout.endswith("a value that is known to be wrong is refused\n")
    report = vramtrace.json("report", tmp_path / "job.vtr")
    places = report["process_list"][0]["data_dependent"]
    assert sum(place["reads"] for place in places) > 40
    reliability(
        "argument-checks",
        program="the distributions of `torch.distributions` but `VonMises`, argument checks on",
        ends="checks of what kernels would have computed pass; a value that is known to be wrong is refused",
        lost="none",
        said="each check is listed as a decision by a computed value",
    )

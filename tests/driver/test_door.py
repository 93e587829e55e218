# SPDX-License-Identifier: MIT
"""Every entry point of hooks.def, asked of NVIDIA's own driver library by name, version and flags, ABI by ABI."""

import doors
from driver_runs import same_outcome


def test_every_answer_is_the_recorders_own(driver, compiled, runs):
    """Statuses and the pattern of equal and different addresses are the driver's; every row's answer is our wrapper."""
    plain, recorded = runs.both(driver, compiled("door"))
    same_outcome(plain, recorded)
    assert plain.returncode == 0 and "cuInit: 100" in plain.stdout
    found = doors.compare(plain.stdout, recorded.stdout)
    assert not found.differences
    assert found.nr_ours == found.nr_rows > 10_000 and len(found.symbols) > 95


def test_the_private_tables_stay_the_drivers(driver, compiled, runs):
    """cuGetExportTable, cuDriverGetVersion and device identity are never the recorder's."""
    recorded = runs.run(driver, compiled("door"), recorded=True)
    for name in ("cuGetExportTable", "cuDriverGetVersion", "cuDeviceGet"):
        owners = {owner for question, _, owner, _ in doors.answers(recorded.stdout) if f" {name}" in question}
        assert owners - {None} == {"driver"}
    assert not runs.recording.exists()  # nothing was allocated

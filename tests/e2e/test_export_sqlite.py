# SPDX-License-Identifier: MIT
"""`export -f sqlite`, asked by the sqlite3 shell."""

import json
import re
import subprocess

import pytest

from exports import exported, job, ranks, two  # noqa: F401: fixtures
from harness import TREE


def asked(database, sql):
    """Rows of a query, as lists of texts."""
    done = subprocess.run(["sqlite3", "-readonly", "-json", database, sql], capture_output=True, text=True, check=True)
    return json.loads(done.stdout or "[]")


@pytest.mark.parametrize("name", ["job", "two", "ranks"])
def test_sums(vramtrace, name, request, tmp_path):
    """Each device's figures are the report's, and so are sums of events, series, blocks and segments."""
    path = request.getfixturevalue(name)
    database = exported(vramtrace, "sqlite", path, tmp_path / "job.db")
    assert asked(database, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    report = vramtrace.json("report", path)
    rows = asked(database, "SELECT * FROM devices JOIN processes USING (process)")
    assert len(rows) == len(report["devices"])
    for device in report["devices"]:
        (row,) = [row for row in rows if (row["pid"], row["device"]) == (device["pid"], device["device"])]
        tensor, reserved, driver = device["tensor"], device["reserved"], device["driver"]
        of = f"process = {row['process']} AND device = {row['device']}"
        for key in ("allocs", "frees", "ooms", "peak_bytes", "peak_time_ns", "live_at_end_bytes"):
            assert row[key] == tensor[key]
        assert (row["reserved_peak_bytes"], row["reserved_end_bytes"]) == (reserved["peak_bytes"], reserved["end_bytes"])
        for key in ("allocs", "frees", "peak_bytes", "live_at_end_bytes"):
            assert row[f"driver_{key}"] == driver[key]
        (events,) = asked(database, f"""
            SELECT sum(kind = 'tensor_alloc') AS allocs, sum(kind = 'tensor_free') AS frees,
                sum(size * (kind = 'tensor_alloc')) - sum(size * (kind = 'tensor_free')) AS live
            FROM events WHERE {of}""")
        assert list(events.values()) == [tensor["allocs"], tensor["frees"], tensor["live_at_end_bytes"]]
        (series,) = asked(database, f"SELECT max(allocated_bytes) AS a, max(reserved_bytes) AS r, max(driver_bytes) AS d"
                                    f" FROM series WHERE {of}")
        assert list(series.values()) == [tensor["peak_bytes"], reserved["peak_bytes"], driver["peak_bytes"]]
        (blocks,) = asked(database, f"SELECT total(size * (moment = 'peak')) AS peak, total(size * (moment = 'end')) AS end"
                                    f" FROM blocks WHERE {of}")
        assert list(blocks.values()) == [tensor["peak_bytes"], tensor["live_at_end_bytes"]]
        (segments,) = asked(database, f"SELECT total(total_size) AS t, total(allocated_size) AS a FROM segments WHERE {of}")
        assert list(segments.values()) == [reserved["end_bytes"], tensor["live_at_end_bytes"]]


def test_stacks(vramtrace, job, tmp_path):
    """What stands at the peak by the line of the program, innermost of gpt.py."""
    database = exported(vramtrace, "sqlite", job, tmp_path / "job.db")
    largest = asked(database, """
        SELECT frames.name, file, line, sum(size) AS bytes FROM blocks JOIN stack_frames USING (stack) JOIN frames USING (frame)
        WHERE moment = 'peak' AND depth = 0 GROUP BY frame ORDER BY bytes DESC LIMIT 1""")[0]
    assert largest["name"] == "cross_entropy" and largest["file"].endswith("functional.py") and largest["line"] > 0
    lost = asked(database, "SELECT count(*) AS n FROM events LEFT JOIN stacks s USING (stack)"
                           " WHERE events.stack IS NOT NULL AND s.stack IS NULL")
    assert lost == [{"n": 0}]
    assert asked(database, "SELECT count(*) AS n FROM device_traces WHERE action = 'alloc'") == asked(
        database, "SELECT allocs AS n FROM devices")


def test_schema_is_documented(vramtrace, job, tmp_path):
    """docs/export.md names each table with its columns, in their order."""
    database = exported(vramtrace, "sqlite", job, tmp_path / "job.db")
    text = (TREE / "docs" / "export.md").read_text()
    documented = {
        name: re.findall(r"`(\w+)`", columns) for name, columns in re.findall(r"^\| `(\w+)` \| [^|]* \| (.*) \|$", text, re.M)
    }
    for table in asked(database, "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"):
        columns = [row["name"] for row in asked(database, f"PRAGMA table_info({table['name']})")]
        assert documented[table["name"]] == columns


def test_to_stdout_and_full_disk(vramtrace, two, tmp_path):
    whole = exported(vramtrace, "sqlite", two, tmp_path / "job.db").read_bytes()
    piped = subprocess.run(["sh", "-c", '"$0" export -f sqlite "$1" | cat', vramtrace.program, two], capture_output=True)
    assert (piped.stdout, piped.stderr) == (whole, b"")
    limited = subprocess.run(
        ["sh", "-c", 'ulimit -f 32; trap "" XFSZ; exec "$@"', "sh", vramtrace.program, "export", "-f", "sqlite", "-o",
         tmp_path / "new.db", two], capture_output=True, text=True)
    assert limited.returncode == 2 and "cannot write the database" in limited.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["job.db"]

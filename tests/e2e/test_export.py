# SPDX-License-Identifier: MIT
"""`export`: text formats, options, and files that are whole or not there."""

import csv
import io
import json
import os
import signal
import subprocess
import time

import jsonschema
import pytest

from exports import job, long, two  # noqa: F401: fixtures


def printed(vramtrace, name, path, *options):
    done = vramtrace.call("export", "-f", name, *options, path)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def of_device(row, device):
    return int(row["pid"]) == device["pid"] and row["device"] == str(device["device"])


@pytest.mark.parametrize("name", ["job", "two"])
def test_events(vramtrace, name, request):
    """As many as the report has, of the same sizes, and the same by both formats."""
    path = request.getfixturevalue(name)
    events = rows(printed(vramtrace, "csv", path))
    for device in vramtrace.json("report", path)["devices"]:
        mine = [row for row in events if of_device(row, device)]
        allocs = [row for row in mine if row["kind"] == "tensor_alloc"]
        frees = [row for row in mine if row["kind"] == "tensor_free"]
        assert (len(allocs), len(frees)) == (device["tensor"]["allocs"], device["tensor"]["frees"])
        live = sum(int(row["size"]) for row in allocs) - sum(int(row["size"]) for row in frees)
        assert live == device["tensor"]["live_at_end_bytes"]
    objects = [json.loads(line) for line in printed(vramtrace, "ndjson", path).splitlines()]
    assert [{key: "" if value is None else str(value) for key, value in row.items()} for row in objects] == events


@pytest.mark.parametrize("name", ["job", "two"])
def test_series(vramtrace, name, request):
    path = request.getfixturevalue(name)
    series = rows(printed(vramtrace, "csv", path, "--what", "series"))
    for device in vramtrace.json("report", path)["devices"]:
        mine = [row for row in series if of_device(row, device)]
        assert max(int(row["allocated_bytes"]) for row in mine) == device["tensor"]["peak_bytes"]
        assert max(int(row["reserved_bytes"]) for row in mine) == device["reserved"]["peak_bytes"]
        assert max(int(row["driver_bytes"]) for row in mine) == device["driver"]["peak_bytes"]
        assert int(mine[-1]["allocated_bytes"]) == device["tensor"]["live_at_end_bytes"]
        times = [int(row["time_ns"]) for row in mine]
        assert times == sorted(times)


def test_blocks(vramtrace, job):
    peak = rows(printed(vramtrace, "csv", job, "--what", "blocks"))
    end = rows(printed(vramtrace, "csv", job, "--what", "blocks", "--at", "end"))
    (device,) = vramtrace.json("report", job)["devices"]
    assert sum(int(row["size"]) for row in peak) == device["tensor"]["peak_bytes"]
    assert sum(int(row["size"]) for row in end) == device["tensor"]["live_at_end_bytes"]
    assert {"parameter", "activation", "optimizer_state"} <= {row["category"] for row in peak}
    assert any("gpt.py" in row["site"] for row in peak)


def stack_sums(folded):
    """{outermost frame: bytes}, and all bytes."""
    lines = [line.rsplit(" ", 1) for line in folded.splitlines()]
    assert all(stack and not stack.startswith(";") for stack, _ in lines)
    sums = {}
    for stack, size in lines:
        first = stack.split(";")[0]
        sums[first] = sums.get(first, 0) + int(size)
    return sums


@pytest.mark.parametrize("at", ["peak", "end"])
def test_stacks(vramtrace, job, two, at):
    """Bytes by stack add up to what `peak` says of the moment; devices are told apart."""
    moment = [] if at == "peak" else ["--at", at]
    for path in (job, two):
        devices = [device for device in vramtrace.json("peak", *moment, path)["devices"]]
        sums = stack_sums(printed(vramtrace, "folded", path, "--at", at))
        document = json.loads(printed(vramtrace, "speedscope", path, "--at", at))
        assert [sum(profile["weights"]) for profile in document["profiles"]] == [d["bytes"] for d in devices]
        assert sum(sums.values()) == sum(d["bytes"] for d in devices)
        if len(devices) > 1:
            assert [total for name, total in sorted(sums.items())] == [d["bytes"] for d in devices]
            assert all(f"GPU {i}" in name for i, name in enumerate(sorted(sums)))
        for profile in document["profiles"]:
            assert len(profile["samples"]) == len(profile["weights"])
            assert all(0 <= frame < len(document["shared"]["frames"]) for s in profile["samples"] for frame in s)


NUMBER, TEXT = {"type": "number"}, {"type": "string"}
SPEEDSCOPE = {  # what speedscope's file-format-schema.json requires of a sampled profile
    "type": "object",
    "required": ["$schema", "shared", "profiles"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "shared": {
            "type": "object",
            "required": ["frames"],
            "properties": {"frames": {"type": "array", "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": TEXT, "file": TEXT, "line": NUMBER, "col": NUMBER},
                "additionalProperties": False,
            }}},
            "additionalProperties": False,
        },
        "profiles": {"type": "array", "minItems": 1, "items": {
            "type": "object",
            "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
            "properties": {
                "type": {"const": "sampled"}, "name": TEXT, "unit": {"const": "bytes"}, "startValue": NUMBER, "endValue": NUMBER,
                "samples": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
                "weights": {"type": "array", "items": NUMBER},
            },
            "additionalProperties": False,
        }},
        "name": TEXT, "activeProfileIndex": NUMBER, "exporter": TEXT,
    },
    "additionalProperties": False,
}


def test_speedscope_is_as_its_schema_has_it(vramtrace, job, two):
    for path in (job, two):
        document = json.loads(printed(vramtrace, "speedscope", path))
        jsonschema.validate(document, SPEEDSCOPE)
        assert 0 <= document["activeProfileIndex"] < len(document["profiles"])
        assert all(p["endValue"] - p["startValue"] == sum(p["weights"]) for p in document["profiles"])


def test_stacks_of_all(vramtrace, job):
    allocs = [int(row["size"]) for row in rows(printed(vramtrace, "csv", job)) if row["kind"] == "tensor_alloc"]
    assert sum(stack_sums(printed(vramtrace, "folded", job, "--at", "all")).values()) == sum(allocs)


def test_choosing(vramtrace, two):
    first, second = vramtrace.json("peak", two)["devices"]
    assert sum(stack_sums(printed(vramtrace, "folded", two, "--device", "1")).values()) == second["bytes"]
    assert {row["device"] for row in rows(printed(vramtrace, "csv", two, "--device", "0"))} == {"0"}
    assert printed(vramtrace, "folded", two, "--pid", first["pid"])
    for options in (["--pid", "1"], ["--rank", "3"], ["--device", "7"]):
        done = vramtrace.call("export", "-f", "folded", *options, two)
        assert done.returncode == 2 and "vramtrace info" in done.stderr


def test_list(vramtrace):
    listed = [line.split()[0] for line in vramtrace.call("export", "--list").stdout.splitlines()]
    unknown = vramtrace.call("export", "-f", "xml", "whatever")
    assert unknown.returncode == 2 and ", ".join(listed) in unknown.stderr


# ---- files -----------------------------------------------------------------------------------------------------------


def test_file(vramtrace, two, tmp_path):
    """The same as on stdout, with the mode of a new file; a link's own target is replaced, and keeps its mode."""
    target, link = tmp_path / "kept.csv", tmp_path / "link.csv"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    new = tmp_path / "new.csv"
    for path in (link, new):
        assert vramtrace.call("export", "-f", "csv", "-o", path, two).returncode == 0
    assert target.read_text() == new.read_text() == printed(vramtrace, "csv", two)
    assert link.is_symlink() and target.stat().st_mode & 0o777 == 0o640
    assert new.stat().st_mode & 0o777 == 0o666 & ~current_umask()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.csv", "link.csv", "new.csv"]
    assert vramtrace.call("export", "-f", "csv", "-o", "/dev/null", two).returncode == 0


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_nothing_is_left_of_what_failed(vramtrace, two, tmp_path):
    """No folder, no recording, no such process, a full disk: a file that was there is as it was."""
    kept = tmp_path / "kept.csv"
    kept.write_text("old")
    for arguments in (["-o", tmp_path / "no" / "x", two], ["-o", kept, tmp_path / "none.vtr"], ["-o", tmp_path, two],
                      ["-o", kept, "--pid", "1", two], ["-o", "/dev/full", two]):
        done = vramtrace.call("export", "-f", "csv", *arguments)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    limited = subprocess.run(
        ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", vramtrace.program, "export", "-f", "ndjson", "-o", kept, two],
        capture_output=True, text=True, preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
    assert limited.returncode == 2 and "kept.csv" in limited.stderr
    assert kept.read_text() == "old" and [path.name for path in tmp_path.iterdir()] == ["kept.csv"]


def test_zstd(vramtrace, two, tmp_path):
    """By the file's ending, and by an option; each is one frame that zstd finds whole."""
    for name in ("csv", "ndjson", "folded"):
        plain = printed(vramtrace, name, two).encode()
        path = tmp_path / f"{name}.zst"
        done = vramtrace.call("export", "-f", name, "-o", path, two)
        assert (done.returncode, done.stderr) == (0, "")
        piped = subprocess.run([vramtrace.program, "export", "-f", name, "--zstd", two], capture_output=True, check=True)
        assert piped.stdout == path.read_bytes()
        assert subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout == plain
    assert path.stat().st_size < len(plain) / 2
    for options in (["-f", "pprof", "--zstd"], ["-f", "sqlite", "-o", tmp_path / "x.zst"], ["-f", "folded", "--split", "--zstd"]):
        done = vramtrace.call("export", *options, two)
        assert done.returncode == 2 and "zstd" in done.stderr and not done.stdout
    full = vramtrace.call("export", "-f", "csv", "--zstd", "-o", "/dev/full", two)
    assert full.returncode == 2 and "/dev/full" in full.stderr and len(full.stderr.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(vramtrace, long, tmp_path, number):
    with subprocess.Popen([vramtrace.program, "export", "-f", "csv", "-o", tmp_path / "out.csv", long]) as process:
        while not list(tmp_path.iterdir()) and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(number)
        assert process.wait() == -number
    assert not list(tmp_path.iterdir())


def test_damaged(vramtrace, long, tmp_path):
    """What can be read is written; the status says that it is not all."""
    data = bytearray(long.read_bytes())
    cut = tmp_path / "cut.vtr"
    cut.write_bytes(data[: len(data) * 2 // 3])
    data[len(data) // 2 : len(data) // 2 + 200] = bytes(200)
    holed = tmp_path / "holed.vtr"
    holed.write_bytes(data)
    for path in (cut, holed):
        for name in ("csv", "folded", "speedscope"):
            done = vramtrace.call("export", "-f", name, path)
            assert done.returncode == 2 and done.stdout and done.stderr
        peak = json.loads(vramtrace.call("peak", "--json", path).stdout)["devices"][0]["bytes"]
        assert sum(stack_sums(vramtrace.call("export", "-f", "folded", path).stdout).values()) == peak

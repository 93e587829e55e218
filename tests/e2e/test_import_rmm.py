# SPDX-License-Identifier: MIT
"""`import`, and commands that read a log of RMM's: rows as its logging_resource_adaptor writes them."""

import random

import pytest

HEAD = "Thread,Time,Action,Pointer,Size,Stream\n"
BASE, NR_EVENTS = 0x7F8A40000000, 5000


def row(thread, at_us, action, address, size, stream="0x2", point="."):
    """printf's "%p" of C libraries, and a time of day."""
    seconds, us = divmod(at_us, 1_000_000)
    time = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{us:06}"
    return f"{thread},{time},{action},{hex(address) if address else '(nil)'},{size},{stream}\n"


@pytest.fixture
def log(tmp_path):
    """A log of two threads over midnight, as of GPU 1, with what it must come to: (path, peak, end, failures)."""
    chance, live, held, peak, rows = random.Random(3), {}, 0, 0, [HEAD]
    now, free = (24 * 3600 - 5) * 1_000_000, list(range(400))
    for _ in range(NR_EVENTS):
        now += chance.randrange(1, 5000)
        thread = chance.choice((140573312345856, 2342727))
        if live and (chance.random() < 0.5 or not free):
            address = chance.choice(list(live))
            size = live.pop(address)
            free.append((address - BASE) >> 24)
            rows.append(row(thread, now, "free", address, size))
            held -= size
        else:
            address, size = BASE + (free.pop() << 24), chance.randrange(1, 1 << 24)
            live[address] = size
            rows.append(row(thread, now, "allocate", address, size, stream=chance.choice(("0x0", "0x2", "0x55d0c0ffee00"))))
            held += size
            peak = max(peak, held)
    rows.append(row(2342727, now + 1, "allocate failure", 0, 90 << 30))
    path = tmp_path / "rmm.dev1.csv"
    path.write_text("".join(rows))
    return path, peak, held, 1


def test_figures(vramtrace, log):
    path, peak, end, failures = log
    (device,) = vramtrace.json("report", path)["devices"]
    driver = device["driver"]
    assert (device["device"], driver["peak_bytes"], driver["live_at_end_bytes"]) == (1, peak, end)
    assert device["tensor"]["peak_bytes"] == 0
    events = vramtrace.events(path)
    assert len([event for event in events if event["kind"] == "alloc_failed"]) == failures
    assert len({event["tid"] for event in events}) == 2
    assert len({event["stream"] for event in events if event["kind"] == "driver_alloc"}) == 3
    times = [event["time_ns"] for event in events]
    assert times == sorted(times) and times[-1] < 60e9


def test_recording(vramtrace, log, tmp_path):
    path, _, _, _ = log
    made = vramtrace.json("import", path, "-o", tmp_path / "job.vtr")
    assert (made["kind"], made["events"], made["unexplained"]) == ("rmm_log", NR_EVENTS + 1, 0)
    assert vramtrace.json("verify", tmp_path / "job.vtr")["verdict"] == "whole"
    assert vramtrace.call("report", tmp_path / "job.vtr").returncode == 0


@pytest.mark.parametrize("command", ["report", "peak", "timeline", "leaks", "frag", "oom", "advise", "info", "verify", "dump"])
def test_every_command_reads_it(vramtrace, log, command):
    done = vramtrace.call(command, log[0])
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "/proc/" not in done.stdout


def test_older_times_and_what_does_not_follow(vramtrace, tmp_path):
    path = tmp_path / "old.csv"
    rows = [row(1, 5, "allocate", BASE, 100, point=":"), row(1, 6, "allocate", BASE, 300, point=":"),
            row(1, 7, "free", BASE + 4096, 100, point=":"), "1,00:00:0"]
    path.write_text(HEAD + "".join(rows))
    made = vramtrace.json("import", path, "-o", tmp_path / "old.vtr")
    assert (made["events"], made["unexplained"]) == (3, 2)
    (device,) = vramtrace.json("report", tmp_path / "old.vtr")["devices"]
    assert (device["driver"]["peak_bytes"], device["driver"]["live_at_end_bytes"]) == (300, 300)


@pytest.mark.parametrize("rows, word", [
    ("", "no rows"),
    ("1,00:00:01.0,allocate,0x10,5\n", "line 2"),
    ("1,00:00:01.0,allocate,0x10,5,0x0,9\n", "line 2"),
    ("1,00:00:01.0,grow,0x10,5,0x0\n", "line 2"),
    ("1,00:00:01.0,allocate,0x10,99999999999999999999,0x0\n", "line 2"),
    ("1,00:00:01.0,allocate,0x10,-5,0x0\n", "line 2"),
    ("1,yesterday,allocate,0x10,5,0x0\n", "line 2"),
    ("1,00:00:01.0,allocate,0x10,5,0x0\n" + "x" * 100_000 + "\n", "line 3"),
    ("1,00:00:01.0,allocate,0x10,5,0x0\n\0\n", "line 3"),
])
def test_what_is_no_row_is_refused(vramtrace, tmp_path, rows, word):
    path = tmp_path / "hostile.csv"
    path.write_text(HEAD + rows)
    for command in ("import", "report"):
        done = vramtrace.call(command, path, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert word in done.stderr and "hostile.csv" in done.stderr
    assert list(tmp_path.iterdir()) == [path]

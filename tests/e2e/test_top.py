# SPDX-License-Identifier: MIT
"""`top` over real PyTorch jobs that run meanwhile, and are killed: on a terminal (tmux), as text, as CSV, with an alert."""

import contextlib
import csv
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import pytest

from harness import LIMIT_S, program_environment, python

FOREVER = 0.05


def wait_for(condition, what):
    end = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(FOREVER)
    return found


class Job:
    """A program that is being recorded; its steps can be waited for."""

    def __init__(self, vramtrace, folder, *arguments, options=(), **more):
        folder.mkdir(exist_ok=True)
        self.path, self.said = folder / "job.vtr", folder / "stdout"
        argv = vramtrace.run_argv(self.path, python("live.py", *arguments), options=options, **more)
        with open(self.said, "w") as stdout:
            self.run = subprocess.Popen(
                [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.DEVNULL,
                env=program_environment(),
            )

    def nr_steps(self):
        return len(re.findall(r"^step", self.said.read_text(), re.M))

    def wait_for_step(self, step):
        wait_for(lambda: self.nr_steps() >= step or self.run.poll() is not None, f"step {step}")
        assert self.run.poll() is None
        return self

    @staticmethod
    def children(pid):
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
        return [int(word) for word in listed.stdout.split()]

    @property
    def pid(self):
        """Of the program itself, not of `run`."""
        return self.children(self.run.pid)[0]

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.run.wait(LIMIT_S)

    def end(self):
        if self.run.poll() is None:
            with contextlib.suppress(IndexError, ProcessLookupError):
                for pid in [*self.children(self.pid), self.pid]:
                    os.kill(pid, signal.SIGKILL)
        self.run.wait(LIMIT_S)


@pytest.fixture
def job(vramtrace, tmp_path):
    """job(*arguments): one that runs; ended when the test is over."""
    jobs = []

    def start(*arguments, **more):
        jobs.append(Job(vramtrace, tmp_path / str(len(jobs)), *arguments, **more))
        return jobs[-1]

    yield start
    for started in jobs:
        started.end()


def once(vramtrace, *arguments, status=0):
    done = vramtrace.call("top", "--once", *arguments)
    assert done.returncode == status, done.stderr
    return done.stdout


def rows(page):
    """The lines of figures: pid, device, and the rest."""
    return re.findall(r"^ *(\d+) +(\d+) +(\S+ \S+) +(\S+ \S+) +(\S+ \S+) +(\S+ \S+) +(\S+%) ", page, re.M)


def peaks(page):
    return re.search(r"peak (\S+ \S+) allocated, (\S+ \S+) reserved", page).groups()


def peaks_of_report(vramtrace, recording):
    text = vramtrace.call("report", recording).stdout
    return tuple(re.search(rf"^  {word} +(\S+ \S+) +peak", text, re.M)[1] for word in ("allocated", "reserved"))


def log_of(text):
    return [{k: int(v) if v.isdigit() else v for k, v in line.items()} for line in csv.DictReader(io.StringIO(text))]


def most(log, key):
    return max(line[key] for line in log)


def device_of(vramtrace, recording):
    return vramtrace.json("report", recording)["devices"][0]


def test_running_then_killed(vramtrace, job):
    one, other = job("--keep", 8), job("--keep", 4)
    one.wait_for_step(3), other.wait_for_step(3)
    wait_for(lambda: f" {one.pid} " in once(vramtrace, one.path), "the first events")
    for argument in (one.pid, one.run.pid, one.path):
        page = once(vramtrace, argument)
        assert [row[:2] for row in rows(page)] == [(str(one.pid), "0")]
        assert "live.py on " in page and ": running, " in page
    found = [row[0] for row in rows(once(vramtrace, "--sort", "pid"))]
    assert {str(one.pid), str(other.pid)} <= set(found)
    assert found == sorted(found, key=int)

    one.kill()
    page = once(vramtrace, one.path)
    assert ": killed (SIGKILL), " in page and ": running, " not in page
    assert peaks(page) == peaks_of_report(vramtrace, one.path)
    assert re.search(r"(\d+) blocks .*live.py:\d+ in train", page)
    assert vramtrace.call("verify", one.path).returncode == 0


def test_log_is_the_timeline(vramtrace, recorded):
    path = recorded("live.py", "--steps", "30", "--pause", "0.02").path
    done = vramtrace.call("top", "--csv", "100ms", path)
    log = log_of(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    device = device_of(vramtrace, path)
    assert most(log, "allocated_bytes") == device["tensor"]["peak_bytes"]
    assert most(log, "reserved_bytes") == device["reserved"]["peak_bytes"]
    assert [line["end"] for line in log] == ["running"] * (len(log) - 1) + ["exit"]
    assert [b["time_ns"] - a["time_ns"] for a, b in zip(log, log[1:])] == [100_000_000] * (len(log) - 1)

    document = vramtrace.json("timeline", "--points", "4096", path)
    points, width = document["devices"][0]["points"], document["recording"]["duration_ns"] / 4096
    for line in log:
        begin, end = line["time_ns"], line["time_ns"] + 100_000_000
        inside = [p["allocated_bytes"] for p in points if p["time_ns"] >= begin and p["time_ns"] + width < end]
        beside = [p["allocated_bytes"] for p in points if p["time_ns"] + 2 * width >= begin and p["time_ns"] - width <= end]
        assert max(inside, default=0) <= line["allocated_bytes"] <= max(beside)


def test_log_of_a_running_job(vramtrace, job):
    running = job("--steps", 40, "--keep", 8)
    running.wait_for_step(2)
    with subprocess.Popen([vramtrace.program, "top", "--csv", "500ms", running.path], stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL) as top:
        first = [top.stdout.readline() for _ in range(3)]
        still = running.run.poll() is None
        text = "".join(first) + top.stdout.read()
    assert still, "the lines came when all was over"
    assert top.returncode == 0
    log = log_of(text)
    assert [b["time_ns"] - a["time_ns"] for a, b in zip(log, log[1:])] == [500_000_000] * (len(log) - 1)
    assert most(log, "allocated_bytes") == device_of(vramtrace, running.path)["tensor"]["peak_bytes"]
    assert log[-1]["step"] == 40


def test_alert_runs_its_command_each_time(vramtrace, job, tmp_path):
    waves, noted = 2, tmp_path / "noted"
    running = job("--steps", 12, "--keep", 64, "--pause", 0.01, "--waves", waves, options=["--simulate-capacity", "2GiB"])
    running.wait_for_step(1)
    command = f'echo "$1 $2 $3 $4 $5" >> {shlex.quote(str(noted))}; echo told'
    done = vramtrace.call("top", "--csv", "200ms", "--alert", "60%", "--alert-command", command, running.path)
    assert done.returncode == 1
    assert "told" not in done.stdout and done.stderr.count("told") == waves
    assert len(re.findall(r"GPU 0 of process \d+ was at \d+", done.stderr)) == waves
    lines = [line.split() for line in noted.read_text().splitlines()]
    assert len(lines) == waves
    for pid, device, used, capacity, trace in lines:
        assert (device, int(capacity)) == ("0", 2 << 30)
        assert int(used) >= 0.6 * int(capacity)
        assert f".{pid}." in trace and trace.startswith(str(running.path))


def test_alert_of_the_past(vramtrace, recorded):
    path = recorded("live.py", "--steps", "30", "--pause", "0.02").path
    assert once(vramtrace, "--alert", "99%", path)
    once(vramtrace, "--alert", "0.1%", path, status=1)


def test_trouble(vramtrace, tmp_path):
    (tmp_path / "empty.vtr").mkdir()
    (tmp_path / "none.vtr").write_text("no trace at all")
    for arguments, said in (
        ((4_000_000,), "there is no process '4000000'"),
        ((os.getpid(),), "writes a recording; start it with 'vramtrace run'"),
        ((tmp_path / "missing.vtr",), "No such file or directory"),
        ((tmp_path / "empty.vtr",), "empty.vtr"),
        ((tmp_path / "none.vtr",), "'vramtrace verify' says why"),
    ):
        done = vramtrace.call("top", "--once", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr


# ---- on a terminal ---------------------------------------------------------------------------------


class Tmux:
    def __init__(self, folder):
        self.socket = folder / "tmux"

    def __call__(self, *words):
        done = subprocess.run(
            ["tmux", "-S", self.socket, "-f", "/dev/null", *map(str, words)], capture_output=True, text=True, check=True,
            env={name: value for name, value in os.environ.items() if name != "TMUX"} | {"LC_ALL": "C.UTF-8"},
        )
        return done.stdout

    def start(self, argv, columns, rows, term="screen"):
        command = " ".join(shlex.quote(str(word)) for word in argv)
        self("-u", "new-session", "-d", "-x", columns, "-y", rows, f"TERM={term} {command}; echo status $?; sleep 1000")

    def screen(self):
        return self("capture-pane", "-p")

    def wait(self, pattern):
        """The first screen that has this."""
        return wait_for(lambda: next((page for page in [self.screen()] if re.search(pattern, page)), None), pattern)


@pytest.fixture
def tmux(tmp_path):
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed: make setup")
    session = Tmux(tmp_path)
    yield session
    with contextlib.suppress(subprocess.CalledProcessError):
        session("kill-server")


def test_page_of_a_job_that_is_killed(vramtrace, job, tmux):
    running = job("--keep", 16)
    running.wait_for_step(8)
    tmux.start([vramtrace.program, "top", running.run.pid], 100, 24)
    page = tmux.wait(r"live.py on .*: running, .*, step (\d{2,})")
    assert rows(page)[0][:2] == (str(running.pid), "0")
    assert re.search(r"\+16.0 MiB a step; out of memory about step [\d,]+", page)
    assert re.search(r"blocks live.py:\d+ in train", page)

    tmux("resize-window", "-x", 60, "-y", 10)
    small = tmux.wait(r"(?s)vramtrace top.*q quit[^\n]*\n*$")
    assert len(small.rstrip("\n").split("\n")) == 10 and max(map(len, small.split("\n"))) <= 60
    tmux("resize-window", "-x", 120, "-y", 30)
    tmux("send-keys", "s")
    tmux.wait("by allocated")

    running.kill()
    page = tmux.wait(r"all have ended")
    assert ": killed (SIGKILL), " in page
    assert peaks(page) == peaks_of_report(vramtrace, running.path)
    tmux("send-keys", "q")
    tmux.wait("status 0")


def test_rows_are_selected_and_scrolled_to(vramtrace, job, tmux):
    jobs = [job("--keep", keep) for keep in (4, 8)]
    for started in jobs:
        started.wait_for_step(4)
    pids = sorted(str(started.pid) for started in jobs)
    tmux.start([vramtrace.program, "top", "--sort", "pid", os.getpid()], 90, 10)
    page = tmux.wait(r"vramtrace top")
    assert [row[0] for row in rows(page)][:1] == pids[:1]
    tmux("send-keys", "Down")
    page = tmux.wait(rf"(?m)^ *{pids[1]} +0 ")
    tmux("send-keys", "Up")
    tmux.wait(rf"(?m)^ *{pids[0]} +0 ")
    jobs[0].kill(), jobs[1].kill()
    tmux.wait("all have ended")
    tmux("send-keys", "q")
    tmux.wait("status 0")


def growth(page):
    """MiB a step, of each row."""
    return [int(mib) for mib in re.findall(r"\+(\d+)\.0+ MiB a step", page)]


def test_each_gpu_of_a_process_has_a_row(vramtrace, job, tmux):
    running = job("--keep", 16, "--devices", 2, gpu="2xh100")
    running.wait_for_step(8)
    tmux.start([vramtrace.program, "top", "--sort", "pid", running.path], 100, 40)
    page = tmux.wait(r"(?s)MiB a step.*MiB a step")
    pid = str(running.pid)
    assert [row[:2] for row in rows(page)] == [(pid, "0"), (pid, "1")]
    assert growth(page) == [16, 32]
    tmux("send-keys", "s")  # by used: GPU 0 has the model besides, GPU 1 soon holds more
    page = tmux.wait(rf"(?m)by used[^\n]*\n(?s:.*?)^ *{pid} +1 (?s:.*)^ *{pid} +0 ")
    running.kill()
    page = tmux.wait(r"all have ended")
    device = vramtrace.json("report", running.path)["devices"]
    assert len(device) == 2 and page.count(": killed (SIGKILL), ") == 2
    tmux("send-keys", "q")
    tmux.wait("status 0")


def test_ranks_are_told_apart(vramtrace, job, tmux):
    """One is killed: the others go on, and the page says which."""
    running = job("--keep", 8, "--ranks", 2, gpu="2xh100")
    wait_for(lambda: running.nr_steps() >= 16, "steps of both")
    tmux.start([vramtrace.program, "top", "--sort", "growth", running.path], 110, 40)
    page = tmux.wait(r"(?s)MiB a step.*MiB a step")
    assert re.findall(r"live.py, rank (\d) on ", page) == ["1", "0"]
    assert growth(page) == [16, 8]
    (pid,) = [pid for pid, device, *_ in rows(page) if device == "1"]
    os.kill(int(pid), signal.SIGKILL)
    page = tmux.wait(r"rank 1 on [^\n]*: killed \(SIGKILL\), ")
    assert re.search(r"rank 0 on [^\n]*: running, ", page)
    os.kill(int(next(row[0] for row in rows(page) if row[0] != pid)), signal.SIGKILL)
    tmux.wait("all have ended")
    tmux("send-keys", "q")
    tmux.wait("status 0")


def test_alert_on_the_page(vramtrace, job, tmux, tmp_path):
    running = job("--keep", 64, options=["--simulate-capacity", "2GiB"])
    running.wait_for_step(1)
    noted = tmp_path / "noted"
    tmux.start([vramtrace.program, "top", "--alert", "50%", "--alert-command", f"echo once >> {noted}", running.path], 120, 24)
    page = tmux.wait(r"alert: GPU 0 of process \d+ was at \d+")
    tmux.wait("all have ended")
    tmux("send-keys", "q")
    assert "status 1" in tmux.wait(r"status \d")
    assert noted.read_text() == "once\n", page


def test_terminal_that_curses_does_not_know(vramtrace, recorded, tmux):
    path = recorded("live.py", "--steps", "30", "--pause", "0.02").path
    tmux.start([vramtrace.program, "top", path], 200, 10, term="of-no-kind")
    page = tmux.wait(r"status \d")
    assert "terminal 'of-no-kind' is not known to curses; '--once' prints the page as text" in page
    assert "status 2" in page

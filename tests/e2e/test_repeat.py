# SPDX-License-Identifier: MIT
"""`run --repeat`: one program several times, one recording, and the range of its peaks."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from harness import LIMIT_S, program_environment, python, trace_files

MIB = 1 << 20


@pytest.fixture
def repeat(vramtrace, tmp_path):
    """repeat(times, *runs): a job with these peaks in MiB; returns the process, its recording and its marks."""

    def run(times, *runs, options=(), env=None, torch=False):
        marks = tmp_path / "marks"
        marks.mkdir(exist_ok=True)
        command = [vramtrace.program, "run", "--simulate", "h100", "--repeat", times, "-o", tmp_path / "job.vtr"]
        command += [*options, "--", *python("varying.py", *["--torch"] * torch, marks, *runs)]
        done = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            stdin=subprocess.DEVNULL,
            env=program_environment(env),
        )
        return done, tmp_path / "job.vtr", marks

    return run


def peaks(vramtrace, path):
    """(allocated, taken from the driver) of the only device, in MiB."""
    (device,) = vramtrace.json("report", path)["devices"]
    return device["tensor"]["peak_bytes"] // MIB, device["driver"]["peak_bytes"] // MIB


def test_the_same_every_time(vramtrace, repeat):
    done, path, _ = repeat(2, 24, 24, torch=True)
    assert done.returncode == 0
    report = vramtrace.json("report", path)["repeat"]
    assert (report["runs"], report["runs_wanted"], report["largest_run"], report["exact"]) == (2, 2, 1, True)
    (device,) = report["devices"]
    assert (device["rank"], device["device"], device["runs"]) == (None, 0, 2)
    assert device["tensor_peak_bytes"] == {"min": 24 * MIB, "max": 24 * MIB}
    assert device["reserved_peak_bytes"] == {"min": 24 * MIB, "max": 24 * MIB}
    said = "24.0 MiB allocated, 24.0 MiB reserved in 2 of 2 runs"
    assert f"vramtrace: GPU 0: peak {said}" in done.stderr.splitlines()
    text = vramtrace.call("report", path).stdout
    assert f"runs: {said}" in text.splitlines() and "depends on" not in text and "one sample" not in text


def test_a_range_and_the_largest_run(vramtrace, repeat, tmp_path):
    """The recording means its largest run, for every command; each run can be named."""
    done, path, marks = repeat(3, 8, 24, 16, torch=True)
    assert done.returncode == 0 and len(list(marks.glob("run.*"))) == 3
    lines = [line.removeprefix("vramtrace: ") for line in done.stderr.splitlines()]
    said = "8.00 to 24.0 MiB allocated, 16.0 to 24.0 MiB reserved over 3 runs"
    assert lines[:3] == [f"run {number}: ended normally" for number in (1, 2, 3)]
    assert re.fullmatch(r"recorded .*job\.vtr \(3 runs; .* the largest, run 2\)", lines[3])
    assert lines[4:] == [f"GPU 0: peak {said}: depends on thread timing", f"next: vramtrace report {path}"]

    report = vramtrace.json("report", path)
    assert report["repeat"]["largest_run"] == 2
    assert report["repeat"]["devices"][0]["tensor_peak_bytes"] == {"min": 8 * MIB, "max": 24 * MIB}
    text = vramtrace.call("report", path).stdout.splitlines()
    assert f"runs: {said}" in text and len(text) <= 24
    assert "      depends on thread timing; shown is run 2 of 3, the largest" in text
    assert "GPU 0: " + said in vramtrace.call("report", "-v", path).stdout.splitlines()

    assert [peaks(vramtrace, path / part) for part in ("", "g1", "g2", "g3")] == [(24, 24), (8, 20), (24, 24), (16, 16)]
    assert vramtrace.json("report", path / "g1")["repeat"] is None
    (device,) = vramtrace.json("peak", path)["devices"]
    assert device["bytes"] == 24 * MIB
    info = vramtrace.json("info", path)["recording"]
    assert (info["processes"], info["runs"], info["folder"]) == (1, 3, str(path / "g2"))
    for command in ("timeline", "leaks", "verify", "dump"):
        assert vramtrace.call(command, path).returncode == 0
    assert len(trace_files(path)) == 3 and not list(path.rglob("*.ring"))


def test_the_first_run_that_failed_decides_the_status(vramtrace, repeat):
    done, path, marks = repeat(3, "8", "16:3", "24:4", options=["-q"])
    assert (done.returncode, done.stderr) == (3, "")
    assert len(list(marks.glob("run.*"))) == 3
    assert vramtrace.json("report", path)["repeat"]["runs"] == 3


def test_a_run_that_ran_out_of_memory_is_the_one_to_look_at(vramtrace, repeat):
    done, path, _ = repeat(2, "8:oom", "64", torch=True)
    assert done.returncode == 1
    report = vramtrace.json("report", path)
    assert report["repeat"]["largest_run"] == 1
    assert report["devices"][0]["tensor"]["ooms"] == 1


def test_a_crash_ends_the_repeating(vramtrace, repeat):
    done, path, marks = repeat(3, "8", "16:abort", "24")
    assert done.returncode == -signal.SIGABRT
    assert len(list(marks.glob("run.*"))) == 2
    assert vramtrace.json("report", path)["repeat"]["runs"] == 2


@pytest.mark.parametrize("to_group", [True, False], ids=["^C", "kill"])
def test_a_signal_ends_the_repeating(vramtrace, tmp_path, to_group):
    os.mkfifo(tmp_path / "waiting")
    command = [vramtrace.program, "run", "--simulate", "h100", "--repeat", "3", "-o", tmp_path / "job.vtr", "--"]
    command += python("varying.py", tmp_path, "8", "16:wait", "24")
    with subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=program_environment(),
        start_new_session=True,
        text=True,
    ) as process:
        with open(tmp_path / "waiting") as waiting:
            assert int(waiting.readline())
        if to_group:
            os.killpg(process.pid, signal.SIGINT)
        else:
            os.kill(process.pid, signal.SIGTERM)
        stderr = process.stderr.read()
        process.wait(LIMIT_S)
    assert process.returncode == (-signal.SIGINT if to_group else -signal.SIGTERM)
    assert "run 2: signal" in stderr
    assert len(list(tmp_path.glob("run.*"))) == 2
    report = vramtrace.json("report", tmp_path / "job.vtr")["repeat"]
    assert (report["runs"], report["runs_wanted"]) == (2, 3)


def test_a_job_joins_what_it_began(vramtrace, repeat):
    """A job of the scheduler that is not interactive records beside what others left, and finds its own runs again."""
    scheduled = {"SLURM_JOB_ID": "77", "SLURM_PROCID": "0"}
    repeat(2, 64, 8, 16, 24, env=scheduled | {"SLURM_JOB_ID": "76"})
    done, path, _ = repeat(2, 64, 8, 16, 24, env=scheduled)
    assert done.returncode == 0
    assert sorted(entry.name for entry in path.iterdir() if entry.is_dir()) == ["g2", "g3", "g4"]
    report = vramtrace.json("report", path)
    assert report["repeat"]["devices"][0]["driver_peak_bytes"] == {"min": 16 * MIB, "max": 24 * MIB}
    assert report["devices"][0]["driver"]["peak_bytes"] == 24 * MIB
    assert "runs: 16.0 to 24.0 MiB from the driver over 2 runs" in vramtrace.call("report", path).stdout.splitlines()
    done, path, _ = repeat(2, 0, 0, 0, 0, 8, 8, options=["--force"])
    assert done.returncode == 0 and not (path / "g4").exists()
    assert peaks(vramtrace, path) == (0, 8)


def test_a_program_without_a_gpu_records_nothing(vramtrace, tmp_path):
    done = vramtrace.call("run", "--repeat", 2, "-o", tmp_path / "job.vtr", "--", "true")
    assert done.returncode == 0 and not (tmp_path / "job.vtr").exists()
    assert "nothing recorded" in done.stderr.splitlines()[-1]


def test_a_program_that_cannot_be_run_is_tried_once(vramtrace, tmp_path):
    done = vramtrace.call("run", "--repeat", 3, "-o", tmp_path / "job.vtr", "--", "no-such-program")
    assert done.returncode == 127 and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "options, words",
    [
        (["--repeat", "0"], "'--repeat' takes a number from 1 to 1000"),
        (["--repeat=-3"], "'--repeat' takes a number from 1 to 1000"),
        (["--repeat", "1001"], "'--repeat' takes a number from 1 to 1000"),
        (["--repeat", "three"], "three"),
        (["--repeat", ""], "--repeat"),
        (["--repeat", "3", "--exec"], "'--repeat' and '--exec' exclude each other"),
        (["--repeat", "3", "--no-record", "--simulate", "h100"], "'--repeat' and '--no-record' exclude each other"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use(vramtrace, tmp_path, options, words):
    done = vramtrace.call("run", *options, "-o", tmp_path / "job.vtr", "--", "touch", tmp_path / "ran")
    assert done.returncode == 125 and words in done.stderr
    assert not (tmp_path / "ran").exists()


def torchrun(ranks):
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]


@pytest.fixture(scope="module")
def one_ddp(vramtrace, tmp_path_factory):
    output = tmp_path_factory.mktemp("ddp") / "ddp.vtr"
    run = vramtrace.record(output, [*torchrun(2), python("ddp.py")[1]], gpu="2xh100")
    assert run.status == 0, run.stderr
    return run


def test_one_run_of_several_ranks_is_one_sample(vramtrace, one_ddp):
    report = vramtrace.json("report", one_ddp.path)
    assert report["repeat"] is None and len(report["devices"]) == 2
    text = vramtrace.call("report", one_ddp.path).stdout.splitlines()
    assert "one sample: peaks of jobs with communication threads can vary; run --repeat 3" in text
    for device in report["devices"]:
        assert device["driver"]["by_owner_at_peak"]["nccl"] == device["modelled"]["nccl"] > 0
        assert device["residual"]["at_driver_peak"]["unknown"] == 0
    assert any(re.fullmatch(r"outside PyTorch on GPU \d: NCCL .*, context .* \(modelled\)", line) for line in text)
    assert len(text) <= 24


@pytest.mark.slow
def test_ranks_are_compared_with_themselves(vramtrace, tmp_path):
    """Every run's ranks said their own peaks: the range is from the smallest to the largest of each."""
    path = tmp_path / "ddp.vtr"
    run = vramtrace.record(path, [*torchrun(2), python("ddp.py")[1]], gpu="2xh100", options=["--repeat", "3"])
    assert run.status == 0, run.stderr
    said = [json.loads(line) for line in run.stdout.splitlines()]
    report = vramtrace.json("report", path)
    assert report["repeat"]["runs"] == 3 and len(report["repeat"]["devices"]) == 2
    for device in report["repeat"]["devices"]:
        of_rank = [line for line in said if line["rank"] == device["rank"]]
        assert len(of_rank) == device["runs"] == 3
        for ours, theirs in (("tensor_peak_bytes", "allocated_peak"), ("reserved_peak_bytes", "reserved_peak")):
            values = [line[theirs] for line in of_rank]
            assert device[ours] == {"min": min(values), "max": max(values)}
    text = vramtrace.call("report", path).stdout
    assert "one sample" not in text and len(text.splitlines()) <= 24

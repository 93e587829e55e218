# SPDX-License-Identifier: MIT
"""`run --ranks`: some ranks of a large job, the others absent. What the named ranks allocate is what they allocate in
the whole job, to the byte: small worlds are run both ways."""

import functools
import json
import os
import signal
import subprocess
import sys

import pytest

from harness import JOBS, LIMIT_S, program_environment, python

WORKER = JOBS / "distributed" / "some_ranks.py"
LLAMA = JOBS / "distributed" / "sharded_llama.py"
MIXED = ("--backend", "cpu:gloo,cuda:nccl")

QUICK = ("ddp", "fsdp2", "tensor_and_data_parallel", "pipeline_1f1b", "alike_objects", "alike_groups")
ALIKE = (
    "alike_reductions",
    "alike_gathers",
    "alike_broadcasts",
    "alike_all_to_all",
    "alike_objects",
    "alike_groups",
    "alike_messages",
)
REPLICATED = (
    "fsdp1",
    "fsdp1_mixed_precision",
    "fsdp2",
    "fsdp2_mixed_precision",
    "fsdp2_reshard_to_two",
    "fsdp2_activation_checkpointing",
    "ddp_sync_batch_norm",
    "ddp",
    "ddp_find_unused_parameters",
)
SPLIT = (
    "tensor_parallel",
    "sequence_parallel",
    "parallel_loss",
    "tensor_and_data_parallel",
    "pipeline_gpipe",
    "pipeline_1f1b",
    "pipeline_interleaved",
)


@pytest.fixture(scope="module")
def peaks_of(vramtrace, tmp_path_factory):
    """peaks_of(world, ranks, *arguments): the peaks in each case of each rank that ran, and the recording; ranks None:
    all of them, by torchrun."""

    @functools.cache
    def run(world, ranks, *arguments):
        folder = tmp_path_factory.mktemp("ranks")
        options = [arguments[0]] if arguments[0] == "--eager" else []
        options = list(arguments[:2]) if arguments[0] == "--backend" else options
        program = [WORKER, *options, folder, *arguments[len(options) :]]
        if ranks is None:
            launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
            done = vramtrace.record(folder / "job.vtr", [sys.executable, *launcher, *program], gpu=f"{world}xh100")
        else:
            done = vramtrace.record(
                folder / "job.vtr", [sys.executable, *program], gpu=f"{world}xh100", options=["--ranks", ranks]
            )
        assert done.status == 0, done.stderr
        return {int(file.stem): json.loads(file.read_text()) for file in folder.glob("*.json")}, folder / "job.vtr"

    return run


def check_both_ways(peaks_of, world, ranks, *arguments):
    whole, _ = peaks_of(world, None, *arguments)
    some, recording = peaks_of(world, ranks, *arguments)
    assert sorted(some) == [int(rank) for rank in ranks.split(",")]
    assert some == {rank: whole[rank] for rank in some}
    return recording


@pytest.mark.parametrize("ranks", ["0,3", pytest.param("2", marks=pytest.mark.slow)])
def test_peaks_are_those_of_the_whole_job(vramtrace, peaks_of, ranks):
    recording = check_both_ways(peaks_of, 4, ranks, *MIXED, *QUICK)
    report = vramtrace.json("report", recording)
    named = [int(rank) for rank in ranks.split(",")]
    assert report["recording"]["ranks"] == {"world_size": 4, "ran": named, "assumed_alike": 4 - len(named)}
    assert sorted(device["rank"] for device in report["devices"]) == named
    text = vramtrace.call("report", recording).stdout.splitlines()
    said = f"rank{'s' * (len(named) > 1)} {ranks} of 4 ran; the other {4 - len(named)} were assumed alike"
    assert said in text


@pytest.mark.slow
@pytest.mark.parametrize("ranks", ["7", "0,3", "1,2,6"])
@pytest.mark.parametrize("cases", [REPLICATED, SPLIT], ids=["replicated", "split"])
def test_peaks_of_eight_ranks(peaks_of, cases, ranks):
    check_both_ways(peaks_of, 8, ranks, *MIXED, *cases)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", ["0", "3", "1,2"])
@pytest.mark.parametrize("backend", ["cpu:gloo,cuda:nccl", "nccl"])
def test_collectives_of_alike_ranks(peaks_of, backend, ranks):
    """The job itself compares the values."""
    whole, _ = peaks_of(4, None, "--backend", backend, *ALIKE)
    some, _ = peaks_of(4, ranks, "--backend", backend, *ALIKE)
    assert len(whole) == 4 and sorted(some) == [int(rank) for rank in ranks.split(",")]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", ["0", "2", "0,3"])
def test_groups_split_off(peaks_of, ranks):
    """With a process group that is bound to its device PyTorch splits communicators."""
    cases = ("alike_split", "alike_groups", "hsdp", "hsdp_fsdp1", "tensor_and_data_parallel")
    check_both_ways(peaks_of, 4, ranks, "--eager", *cases)


@pytest.mark.slow
def test_two_ranks_of_512(vramtrace, tmp_path):
    """A model of 69 billion parameters, sharded: each rank holds its part, and both the same."""
    done = vramtrace.record(
        tmp_path / "job.vtr",
        [sys.executable, LLAMA, tmp_path, "70b"],
        gpu="512xh100",
        options=["--ranks", "0,17"],
    )
    assert done.status == 0, done.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 17))
    assert first["parameters"] > 68e9
    for peak in ("allocated_bytes.all.peak", "reserved_bytes.all.peak"):
        assert first[peak] == second[peak]
    devices = vramtrace.json("report", tmp_path / "job.vtr")["devices"]
    assert [d["tensor"]["peak_bytes"] for d in devices] == [first["allocated_bytes.all.peak"]] * 2
    assert sorted((d["rank"], d["local_rank"], d["device"]) for d in devices) == [(0, 0, 0), (17, 1, 1)]


# ---- places, launchers, ends -----------------------------------------------------------------


@pytest.fixture
def run(vramtrace, tmp_path):
    """run(options, program): `vramtrace run --no-record` with a program that needs no PyTorch."""

    def start(options, program, **more):
        command = [vramtrace.program, "run", "--no-record", *options, "--", *program]
        return subprocess.run(
            [str(word) for word in command],
            **{"capture_output": True, "text": True, "timeout": LIMIT_S, "stdin": subprocess.DEVNULL} | more,
            env=program_environment(),
        )

    return start


def told(folder):
    return {int(file.stem): json.loads(file.read_text()) for file in folder.glob("*.json")}


def test_places_of_ranks(run, tmp_path):
    """20 GPUs are two machines of 8 and one of 4."""
    done = run(["--simulate", "20xh100", "--ranks", "0-1,9,19"], python("rank_environment.py", tmp_path))
    assert done.returncode == 0, done.stderr
    names = ("LOCAL_RANK", "GROUP_RANK", "LOCAL_WORLD_SIZE", "SIMGPU_DEVICES")
    seen = {rank: tuple(facts[name] for name in names) for rank, facts in told(tmp_path).items()}
    assert seen == {0: (0, 0, 8, 8), 1: (1, 0, 8, 8), 9: (1, 1, 8, 8), 19: (3, 2, 4, 4)}
    assert {(f["WORLD_SIZE"], f["GROUP_WORLD_SIZE"]) for f in told(tmp_path).values()} == {(20, 3)}


def test_launcher_is_understood(run, tmp_path):
    """torchrun's own part is left out; --nproc-per-node says how many GPUs a machine has."""
    launcher = ["-m", "torch.distributed.run", "--nnodes", "4", "--nproc-per-node=4", "--rdzv-backend", "c10d"]
    script, folder = python("rank_environment.py", tmp_path)[1:]
    done = run(["--simulate", "16xh100", "--ranks", "5"], [sys.executable, *launcher, script, folder])
    assert done.returncode == 0, done.stderr
    assert {rank: (f["LOCAL_RANK"], f["LOCAL_WORLD_SIZE"]) for rank, f in told(tmp_path).items()} == {5: (1, 4)}
    done = run(["--simulate", "8xh100", "--ranks", "5"], [sys.executable, *launcher, script, folder])
    assert done.returncode == 125 and "the launcher starts 4 x 4 ranks, '--simulate' says 8" in done.stderr


@pytest.mark.parametrize("ending, status", [("2:3", 3), ("0:41", 41)])
def test_a_failing_rank_ends_the_others(run, tmp_path, ending, status):
    done = run(["--simulate", "4xh100", "--ranks", "0,2-3"], python("rank_environment.py", tmp_path, ending))
    assert done.returncode == status
    rank = ending.partition(":")[0]
    assert done.stderr == f"vramtrace: rank {rank} ended with status {status}; the other ranks are ended\n"


def test_signals_reach_all_ranks(vramtrace, tmp_path):
    """A launcher that is asked to end passes it on, and ends as its ranks did; it says nothing about it."""
    command = [vramtrace.program, "run", "--no-record", "--simulate", "4xh100", "--ranks", "0,3", "--"]
    command += python("rank_environment.py", tmp_path, "none:0")
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, env=program_environment(), text=True)
    while len(told_names(tmp_path)) < 2:
        os.sched_yield()
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == -signal.SIGTERM
    assert process.stderr.read() == ""


def told_names(folder):
    return [file for file in folder.glob("*.json") if file.stat().st_size]


@pytest.mark.parametrize(
    "options, said",
    [
        (["--ranks", "0"], "'--ranks' needs '--simulate NxGPU', the GPUs of the whole job"),
        (["--simulate", "4xh100", "--ranks", "4"], "there is no rank 4; 4 GPUs have ranks 0 to 3"),
        (["--simulate", "4xh100", "--ranks", "0,1,0"], "'--ranks 0,1,0' names rank 0 twice"),
        (["--simulate", "4xh100", "--ranks", "a"], "cannot understand '--ranks a'; expected ranks and ranges"),
        (["--simulate", "4xh100", "--gpus-per-node", "2"], "'--gpus-per-node' needs '--ranks'"),
        (["--simulate", "4xh100", "--ranks", "0", "--exec"], "'--ranks' and '--exec' exclude each other"),
        (["--simulate", "512xh100"], "1 to 64 GPUs; '--ranks' runs some ranks of a larger job"),
    ],
)
def test_wrong_options(vramtrace, options, said):
    done = vramtrace.call("run", *options, "--", "true")
    assert done.returncode == 125 and said in done.stderr


def test_own_sitecustomize_still_runs(run, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("print('mine')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    program = [sys.executable, "-c", "import sitecustomize; print(sitecustomize.__file__)"]
    done = run(["--simulate", "4xh100", "--ranks", "1"], program)
    assert (done.returncode, done.stdout) == (0, f"mine\n{tmp_path / 'sitecustomize.py'}\n"), done.stderr


@pytest.mark.slow
def test_repeated(vramtrace, tmp_path):
    """Each run has a store of its own, which ends with it."""
    program = [sys.executable, WORKER, "--backend", "nccl", tmp_path, "fsdp2"]
    options = ["--ranks", "1,2", "--repeat", "2"]
    done = vramtrace.record(tmp_path / "job.vtr", program, gpu="4xh100", options=options)
    assert done.status == 0, done.stderr
    repeat = vramtrace.json("report", tmp_path / "job.vtr")["repeat"]
    assert repeat["runs"] == 2 and [device["rank"] for device in repeat["devices"]] == [1, 2]
    assert not [line for line in open("/proc/net/unix") if "vramtrace-store-" in line]


def test_unknown_objects_are_an_error(vramtrace, tmp_path):
    """What an absent rank would have scattered nobody can know: the program is told, and what to do."""
    script = tmp_path / "scatter.py"
    script.write_text(
        "import torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "dist.scatter_object_list([None], None, 0)\n"
    )
    done = vramtrace.call("run", "--no-record", "--simulate", "4xh100", "--ranks", "3", "--", sys.executable, script)
    assert done.returncode == 1
    assert "rank 0 does not run here" in done.stderr and "name it in '--ranks'" in done.stderr

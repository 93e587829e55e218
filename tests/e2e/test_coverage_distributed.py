# SPDX-License-Identifier: MIT
"""Jobs of several ranks under torchrun: every rank's ledger equals what PyTorch's own allocator counted there, in
every case and over its life, to the byte; and collectives carry what the ranks put into them."""

import functools
import json
import sys
from dataclasses import dataclass

import pytest

from coverage_distributed import CASES
from coverage_table import parameters
from harness import JOBS

WORKER = JOBS / "distributed" / "worker.py"
QUICK_ON_FOUR = ("ddp", "fsdp2", "hsdp", "tensor-and-data-parallel", "pipeline-1f1b", "pipeline-shape-exchange")
QUICK_ON_FOUR += ("all-reduce", "all-gather-object", "split-group")


@dataclass(frozen=True)
class World:
    """A process group, started once for all its cases."""

    ranks: int
    mixed: bool  # cpu:gloo,cuda:nccl and lazily bound, else nccl alone and bound to its device

    def runs(self, case):
        """Whether the case belongs to this world."""
        needs = case.options
        return (
            self.ranks in needs.get("ranks", (2, 4))
            and not (needs.get("mixed") and not self.mixed)
            and not (needs.get("eager") and self.mixed)
        )

    def __str__(self):
        return f"{self.ranks}-{'mixed' if self.mixed else 'nccl'}"


@dataclass
class Job:
    """A recorded job: what each rank wrote, what the report says of each, and their tensor events."""

    ledgers: list
    devices: list
    events: list


def torchrun(ranks, *arguments):
    """The argument list that starts `ranks` processes of a script on this machine."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *arguments]


def sizes(vramtrace, recording):
    """The signed sizes of each process's tensor events, in order."""
    found = {}
    done = vramtrace.call("dump", "--json", recording)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        event = json.loads(line)
        if event["kind"] in ("tensor_alloc", "tensor_free"):
            sign = 1 if event["kind"] == "tensor_alloc" else -1
            found.setdefault(event["pid"], []).append(sign * event["size"])
    return found


def read_job(vramtrace, recording, ledgers, world):
    devices = vramtrace.json("report", recording)["devices"]
    devices = sorted((d for d in devices if d["tensor"]["allocs"]), key=lambda device: device["rank"])
    events = sizes(vramtrace, recording)
    return Job(
        ledgers=[json.loads((ledgers / f"{rank}.json").read_text()) for rank in range(world.ranks)],
        devices=devices,
        events=[events[device["pid"]] for device in devices],
    )


@pytest.fixture(scope="module")
def job_of(vramtrace, tmp_path_factory):
    """job_of(world, names): the recorded job that runs those cases, once for all tests that read it."""

    @functools.cache
    def start(world, names):
        folder = tmp_path_factory.mktemp(str(world))
        options = [] if world.mixed else ["--backend=nccl", "--eager"]
        program = torchrun(world.ranks, WORKER, *options, folder, *names)
        done = vramtrace.record(folder / "job.vtr", program, gpu=f"{world.ranks}xh100")
        return done, done.status == 0 and read_job(vramtrace, done.path, folder, world)

    def run(world, names):
        done, job = start(world, names)
        assert done.status == 0, done.stderr
        return job

    return run


def peak_between(signed, first, end):
    """The most that was allocated from after `first` events until after `end` events."""
    allocated = sum(signed[:first])
    peak = allocated
    for size in signed[first:end]:
        allocated += size
        peak = max(peak, allocated)
    return peak


def check(job, world, case):
    name = case.job.split()[1]
    for rank in range(world.ranks):
        seen = job.ledgers[rank]["cases"][name]
        assert peak_between(job.events[rank], seen["first_event"], seen["end_event"]) == seen["peak_bytes"]
    if "error" in case.options:
        assert case.options["error"] in seen["seen"]
    # Norms and the like: every rank computed the same from what the collectives brought.
    assert len({json.dumps(ledger["cases"][name]["seen"]) for ledger in job.ledgers}) == 1


def check_ledgers(job, world):
    """Counts, peaks and what is left, of every rank."""
    assert [device["rank"] for device in job.devices] == list(range(world.ranks))
    for device, ledger in zip(job.devices, job.ledgers):
        figures = {
            "allocation.all.allocated": device["tensor"]["allocs"],
            "allocation.all.freed": device["tensor"]["frees"],
            "allocated_bytes.all.peak": device["tensor"]["peak_bytes"],
            "allocated_bytes.all.current": device["tensor"]["live_at_end_bytes"],
            "reserved_bytes.all.peak": device["reserved"]["peak_bytes"],
            "reserved_bytes.all.current": device["reserved"]["end_bytes"],
            "num_ooms": device["tensor"]["ooms"],
        }
        assert device["exact"]
        assert figures == {name: ledger[name] for name in figures}


def cases_of(world, names=None):
    return [case for case in CASES if world.runs(case) and (names is None or case.name in names)]


def functions(cases):
    return tuple(case.job.split()[1] for case in cases)


TWO, FOUR = World(2, mixed=True), World(4, mixed=False)
QUICK = {TWO: cases_of(TWO), FOUR: cases_of(FOUR, QUICK_ON_FOUR)}
SLOW = {world: cases_of(world) for world in (World(2, mixed=False), World(4, mixed=True), FOUR)}


def pairs(jobs, *marks):
    return [
        pytest.param(world, case, id=f"{world}-{case.name}", marks=marks)
        for world, cases in jobs.items()
        for case in cases
    ]


@pytest.mark.parametrize("world, case", pairs(QUICK))
def test_case(job_of, world, case):
    check(job_of(world, functions(QUICK[world])), world, case)


@pytest.mark.parametrize("world", QUICK, ids=str)
def test_report_equals_memory_stats(job_of, world):
    check_ledgers(job_of(world, functions(QUICK[world])), world)


@pytest.mark.slow
@pytest.mark.parametrize("world, case", pairs(SLOW))
def test_case_in_other_worlds(job_of, world, case):
    check(job_of(world, functions(SLOW[world])), world, case)


@pytest.mark.slow
@pytest.mark.parametrize("world", SLOW, ids=str)
def test_report_equals_memory_stats_in_other_worlds(job_of, world):
    check_ledgers(job_of(world, functions(SLOW[world])), world)


@pytest.mark.slow
@pytest.mark.parametrize("gpu, size, parameters", [("8xh100", "7b", 6738415616), ("8xh200", "70b", 68976648192)])
def test_sharded_llama_on_eight_gpus(vramtrace, tmp_path, gpu, size, parameters):
    """A 7B and a 70B model: all ranks on one machine, in less host memory than one GPU of theirs has."""
    program = torchrun(8, JOBS / "distributed" / "sharded_llama.py", tmp_path, size)
    done = vramtrace.record(tmp_path / "job.vtr", program, gpu=gpu)
    assert done.status == 0, done.stderr
    world = World(8, mixed=False)
    job = read_job(vramtrace, done.path, tmp_path, world)
    check_ledgers(job, world)
    assert {ledger["parameters"] for ledger in job.ledgers} == {parameters}
    assert len({ledger["allocated_bytes.all.peak"] for ledger in job.ledgers}) == 1
    assert sum(ledger["host_bytes"]["Pss"] for ledger in job.ledgers) < 12 * 2**30

# SPDX-License-Identifier: MIT
"""`oom` says that one rank needs more than the others (jobs/oom/ranks.py), and nothing of ranks that are alike."""

import pytest

from harness import JOBS, python

SCRIPT = JOBS / "oom" / "ranks.py"


def run_out(vramtrace, tmp_path, cause):
    options = ("--simulate-capacity", "4GiB", "--ranks", "0,1")
    recording = vramtrace.record(
        tmp_path / "job.vtr", python("oom/ranks.py", cause, tmp_path), gpu="2xh100", options=options
    )
    assert recording.status == 1 and "OutOfMemoryError" in recording.stderr, recording.stderr
    return vramtrace.json("oom", recording.path), recording.path


@pytest.mark.parametrize(("cause", "rank", "category"), [("stages", 1, "parameter"), ("batches", 0, "activation")])
def test_rank_with_more_is_named(vramtrace, tmp_path, cause, rank, category):
    told, path = run_out(vramtrace, tmp_path, cause)
    (finding,) = [f for f in told["findings"] if f["verdict"] == "rank_imbalance"]
    assert finding["evidence"][0].startswith(f"Rank {rank} needs ")
    assert finding["evidence"][1].startswith(f"most of the difference is {category}: ")
    assert finding["site"]["file"] == str(SCRIPT)
    # By the peaks that the report has of both.
    peaks = {d["rank"]: d["tensor"]["peak_bytes"] for d in vramtrace.json("report", path)["devices"]}
    state = next(d["state"] for d in told["devices"] if d["rank"] == rank)
    assert finding["bytes"] == state["allocated_bytes"] + state["asked_bytes"] - peaks[1 - rank]
    assert "rank_imbalance: " in vramtrace.call("oom", path).stdout or "Rank " in vramtrace.call("oom", path).stdout


def test_what_a_rank_keeps_comes_before_its_batch(vramtrace, tmp_path):
    """The batch is too large beside the table alone: the other rank has been through the same."""
    told, path = run_out(vramtrace, tmp_path, "tables")
    imbalance, *others = told["findings"]
    assert imbalance["verdict"] == "rank_imbalance" and imbalance["bytes"] >= 1 << 30
    assert imbalance["site"].items() >= planted(SCRIPT, "tables").items()
    assert [finding["verdict"] for finding in others] == ["too_big"]
    page = vramtrace.call("oom", path).stdout.splitlines()
    assert page[1].startswith("rank_imbalance: Rank 0 needs ") and len(page) <= 24


def test_rank_that_is_still_in_its_backward_pass_is_compared(vramtrace, tmp_path):
    """It has made the same forward: that of the one that failed needed so much more."""
    told, path = run_out(vramtrace, tmp_path, "halfway")
    (finding,) = [f for f in told["findings"] if f["verdict"] == "rank_imbalance"]
    assert finding["evidence"][0].startswith("Rank 0 needs ") and " in forward, " in finding["evidence"][0]
    (line,) = [i for i, text in enumerate(SCRIPT.read_text().splitlines(), 1) if text.endswith("# planted: halfway")]
    assert (finding["site"]["file"], finding["site"]["line"]) == (str(SCRIPT), line)
    peaks = {
        device["rank"]: phase["peak_bytes"]
        for device in vramtrace.json("report", path)["devices"]
        for phase in device["phases"]
        if phase["phase"] == "forward"
    }
    assert finding["bytes"] == peaks[0] - peaks[1]


def test_ranks_alike_are_not_compared(vramtrace, tmp_path):
    told, _ = run_out(vramtrace, tmp_path, "alike")
    assert [finding["verdict"] for finding in told["findings"]] == ["too_big"]


@pytest.mark.parametrize("job", ["buckets", "second_pass"])
def test_gradients_are_there_twice(vramtrace, tmp_path, job):
    """As DDP has it by default; each of 12 weights of 64 MiB has a gradient, 2 have a place in the buckets alone."""
    told, _ = run_out(vramtrace, tmp_path, job)
    (finding,) = [f for f in told["findings"] if f["cause"] == "ddp_buckets"]
    (line,) = [i for i, text in enumerate(SCRIPT.read_text().splitlines(), 1) if text.endswith(f"# planted: {job}")]
    assert (finding["site"]["file"], finding["site"]["line"]) == (str(SCRIPT), line)
    layer = (4096 * 4096 + 4096) * 4
    assert 14 * layer <= finding["bytes"] <= 14 * layer + 14 * 512
    idle = finding["facts"]["idle_bytes"]
    assert abs(idle - 2 * layer) <= 14 * 512
    assert finding["advice_facts"][1] == {"says": "ddp_idle_advice", "idle_bytes": idle}


def planted(script, mark):
    (line,) = [i for i, text in enumerate(script.read_text().splitlines(), 1) if text.endswith(f"# planted: {mark}")]
    return {"file": str(script), "line": line}


def test_ranks_without_an_environment(vramtrace, tmp_path):
    """NCCL is told which rank a process is. Rank 1 has called the model as often, and keeps nothing."""
    script = JOBS / "oom" / "spawned.py"
    recording = vramtrace.record(
        tmp_path / "job.vtr", python(script, tmp_path), gpu="2xh100", options=("--simulate-capacity", "4GiB")
    )
    assert recording.status == 1 and "OutOfMemoryError" in recording.stderr, recording.stderr
    leak, imbalance = vramtrace.json("oom", recording.path)["findings"]
    assert (leak["verdict"], leak["cause"]) == ("leak", "kept_by_calls")
    assert leak["site"].items() >= planted(script, "spawned").items() and leak["bytes"] % (32 << 20) == 0
    assert imbalance["verdict"] == "rank_imbalance" and imbalance["evidence"][0].startswith("Rank 0 needs ")
    assert imbalance["site"].items() >= planted(script, "spawned").items()


def test_communicators_fill_the_device(vramtrace, tmp_path):
    """No tensor fails: NCCL does, which holds what the tensors do not."""
    options = ("--simulate-capacity", "4GiB", "--ranks", "0,1")
    recording = vramtrace.record(
        tmp_path / "job.vtr", python(SCRIPT, "groups", tmp_path), gpu="2xh100", options=options
    )
    assert recording.status == 1 and "OutOfMemoryError" not in recording.stderr, recording.stderr
    told = vramtrace.json("oom", recording.path)
    (finding,) = [finding for finding in told["findings"] if finding["cause"] == "library_request"]
    assert finding["verdict"] == "non_torch" and finding["site"].items() >= planted(SCRIPT, "groups").items()
    assert finding["facts"]["says"] == "owner_refused" and finding["facts"]["owner"] == "NCCL"
    assert abs(finding["facts"]["reserved_bytes"] - (2 << 30)) < 4 << 20
    assert told["findings"][0]["verdict"] == "non_torch"

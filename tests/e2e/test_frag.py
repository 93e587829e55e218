# SPDX-License-Identifier: MIT
"""`frag` agrees with PyTorch's own snapshot to the byte, and finds fragmentation where it was planted and nowhere else."""

import csv
import io

import pytest

from harness import JOBS

GIB = 1 << 30
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
SOURCE = JOBS / "frag.py"


def line_of(path, text):
    """The number of the one line of a file that contains `text`."""
    (number,) = [number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line]
    return number


@pytest.fixture
def judged(vramtrace, record):
    """judged(scenario, ...): the job's own figures, and `frag --json` of its recording."""

    def run(job, *arguments, **options):
        done = record(job, *arguments, **options)
        assert done.status == 0, done.stderr
        return done, vramtrace.json("frag", done.path)

    return run


def same_as_told(device, ledger):
    for name, told in ledger["moments"].items():
        moment = device["moments"][name]
        assert {key: moment[key] for key in told} == told, name
        assert moment["cached_bytes"] == moment["reserved_bytes"] - moment["allocated_bytes"]
    assert (device["unplaced_bytes"], device["disagreements"]) == (0, 0)


@pytest.mark.parametrize(
    "scenario, env, tracker",
    [
        ("failure", None, False),
        ("retry", None, False),
        ("segments", None, False),
        ("segments", EXPANDABLE, False),
        ("streams", None, False),
        ("graph", None, False),
        ("graph", None, True),
        ("pending", None, True),
        ("segments", EXPANDABLE, True),
    ],
)
def test_figures_are_the_allocators_own(judged, scenario, env, tracker):
    done, printed = judged("frag.py", scenario, env=env, options=["--tracker"] if tracker else [])
    assert printed["schema"] == "vramtrace/frag/1"
    (device,) = printed["devices"]
    same_as_told(device, done.ledger)


@pytest.mark.parametrize("scenario", ["failure", "segments"])
def test_blockers_are_the_planted_line(vramtrace, judged, scenario):
    # Of 32 GiB three quarters: what lies in pieces on an empty GPU costs nothing.
    done, printed = judged("frag.py", scenario, options=["--simulate-capacity", "32GiB"] if scenario == "segments" else [])
    (device,) = printed["devices"]
    site = {"file": str(SOURCE), "line": line_of(SOURCE, "# KEEPER"), "function": "cut_up"}
    assert printed["findings"]
    for finding in printed["findings"]:
        assert (finding["verdict"], finding["site"]) == ("fragmentation", site)
        assert finding["evidence"] and finding["advice"]
    moment = device["moments"]["failure" if scenario == "failure" else "peak"]
    (blocker,) = moment["blockers"]
    assert blocker["site"] == site
    assert blocker["kept_bytes"] == moment["stuck_bytes"]
    assert blocker["segments"] == blocker["segments_alone"] == blocker["count"]

    text = vramtrace.call("frag", done.path)
    lines = text.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert f"frag.py:{site['line']}" in text.stdout
    assert vramtrace.call("frag", "--exit-code", done.path).returncode == 1


def test_blockers_of_segments_that_are_mostly_in_use(vramtrace, judged):
    """A finding is not without a place, and no advice is given that large blocks should come first."""
    done, printed = judged("frag.py", "mostly", options=["--simulate-capacity", "12GiB"])
    (device,) = printed["devices"]
    same_as_told(device, done.ledger)
    (blocker,) = device["moments"]["peak"]["blockers"]
    line = line_of(SOURCE, "# FILLER")
    assert {finding["site"]["line"] for finding in printed["findings"]} == {blocker["site"]["line"]} == {line}
    assert blocker["kept_bytes"] == device["moments"]["peak"]["stuck_bytes"] == 32 * 106 << 20
    page = vramtrace.call("frag", done.path).stdout
    assert "What stopped partly free segments from being released, at the peak:" in page and "before the large blocks" not in page
    assert len(page.splitlines()) <= 24 and max(map(len, page.splitlines())) <= 80


SPLIT = """
import torch
class Small(torch.nn.Module):
    def forward(self):
        return torch.empty(2 << 20, dtype=torch.uint8, device="cuda")  # small
small, kept, between = Small(), [], []
for _ in range(30):
    between.append(torch.empty(9 << 20, dtype=torch.uint8, device="cuda"))
    kept.append(small{call}())
    between.append(torch.empty(9 << 20, dtype=torch.uint8, device="cuda"))
between.clear()
kept += [torch.empty(60 << 20, dtype=torch.uint8, device="cuda") for _ in range(30)]  # until it fails
"""


@pytest.mark.parametrize(("call", "is_advised"), [(".forward", True), ("", False)])
def test_what_a_pass_computes_cannot_come_earlier(vramtrace, record, tmp_path, call, is_advised):
    """What lies in the way is to be allocated before the large blocks, unless a call of a model makes it."""
    script = tmp_path / "split.py"
    script.write_text(SPLIT.format(call=call))
    path = record(script, options=["--simulate-capacity", "1800MiB"]).path
    (blocker, *_) = vramtrace.json("frag", path)["devices"][0]["moments"]["peak"]["blockers"]
    assert blocker["site"]["line"] == 5 and blocker["kept_bytes"] > 100 << 20
    assert ("before the large" in vramtrace.call("frag", path).stdout) == is_advised


def test_what_can_be_given_back_is_not_scarce(vramtrace, judged):
    """28 of 36 GiB are reserved, 4 of which lie in a segment that is wholly free."""
    done, printed = judged("frag.py", "returnable", options=["--simulate-capacity", "36GiB"])
    (device,) = printed["devices"]
    same_as_told(device, done.ledger)
    assert printed["findings"] == [] and device["moments"]["peak"]["empty_cache_bytes"] == 4 << 30
    assert "No harmful fragmentation." in vramtrace.call("frag", done.path).stdout


def test_pieces_on_an_empty_gpu_are_no_finding(vramtrace, judged):
    """Two thirds of what is reserved lie in pieces, and 55 GiB are free: nothing was refused, and nothing is scarce."""
    done, printed = judged("frag.py", "segments")
    moment = printed["devices"][0]["moments"]["peak"]
    assert moment["stuck_bytes"] > moment["reserved_bytes"] / 2 and printed["findings"] == []
    assert "No harmful fragmentation." in vramtrace.call("frag", done.path).stdout


def test_a_failed_request(judged):
    _, printed = judged("frag.py", "failure")
    (device,) = printed["devices"]
    harm = device["harm"]["failed"]
    assert (harm["count"], harm["asked_bytes"]) == (1, 8 * GIB)
    assert harm["free_bytes"] == device["moments"]["failure"]["stuck_bytes"]
    assert device["failures"] == 2  # the one before was plainly too big
    assert device["expandable_segments"]["failed_request_fits"]
    done, _ = judged("frag.py", "failure", env=EXPANDABLE, name="expandable.vtr")
    assert done.ledger["num_ooms"] == 1


def test_a_retry(judged):
    done, printed = judged("frag.py", "retry")
    (device,) = printed["devices"]
    harm = device["harm"]["retry"]
    assert harm["count"] == done.ledger["num_alloc_retries"] == 1
    assert (harm["asked_bytes"], harm["free_bytes"]) == (24 * GIB, 60 * GIB)
    assert [finding["bytes"] for finding in printed["findings"]] == [60 * GIB]


@pytest.mark.parametrize("scenario", ["streams", "graph"])
def test_memory_of_others_is_no_fragmentation(vramtrace, judged, scenario):
    done, printed = judged("frag.py", scenario)
    assert printed["findings"] == []
    assert vramtrace.call("frag", "--exit-code", done.path).returncode == 0


@pytest.mark.parametrize("job", ["gpt.py", "mlp.py", "resnet50.py", "frag.py segments", "healthy.py --lengths"])
def test_expandable_segments_reserve_as_predicted(judged, job):
    """The same job with the setting: its reserved peak is the one that was computed without it."""
    _, printed = judged(*job.split())
    (device,) = printed["devices"]
    predicted = device["expandable_segments"]["reserved_peak_bytes"]
    done, printed = judged(*job.split(), env=EXPANDABLE, name="expandable.vtr")
    (device,) = printed["devices"]
    measured = done.ledger["reserved_bytes.all.peak"]
    assert device["expandable_segments"] == {
        "in_use": True,
        "reserved_peak_bytes": None,
        "failed_request_fits": None,
    }
    assert predicted == measured


HEALTHY = ["fill_until_oom.py --catch", "gpt.py", "mlp.py", "resnet50.py", "llama7b.py", "threads.py", "data_loader.py"]
HEALTHY += [f"healthy.py --{habit}" for habit in ("warm-up", "evaluate", "lengths", "save", "accumulate", "all")]


@pytest.mark.parametrize("job", HEALTHY)
def test_healthy_jobs_have_no_findings(vramtrace, recorded, job):
    done = recorded(*job.split())
    assert done.status == 0, done.stderr
    printed = vramtrace.json("frag", done.path)
    assert printed["findings"] == []
    lines = vramtrace.call("frag", done.path).stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80


def test_series(vramtrace, recorded):
    """JSON and CSV have the same points, and their maxima are the peaks."""
    done = recorded("gpt.py")
    (device,) = vramtrace.json("frag", "--points", 100, done.path)["devices"]
    points = device["points"]
    assert max(point["reserved_bytes"] for point in points) == done.ledger["reserved_bytes.all.peak"]
    assert max(point["allocated_bytes"] for point in points) == done.ledger["allocated_bytes.all.peak"]
    rows = list(csv.DictReader(io.StringIO(vramtrace.call("frag", "--csv", "--points", 100, done.path).stdout)))
    assert [{key: int(row[key]) for key in points[0]} for row in rows] == points

# SPDX-License-Identifier: MIT
"""What `whatif` says a job would reserve under other settings is what the same job then reserves; docs/whatif.md shows it.

Each job is recorded once with PyTorch's own settings, and predicted for each of SETTINGS; then it is run under them.
"""

import functools
import re
import sys
import tempfile

import pytest

from harness import JOBS as FOLDER
from harness import TREE, python

MIB, GIB = 1 << 20, 1 << 30
CONF = "PYTORCH_CUDA_ALLOC_CONF"
SETTINGS = {
    "own": "",
    "expandable": "expandable_segments:True",
    "split-32": "max_split_size_mb:32",
    "split-128": "max_split_size_mb:128",
    "roundup": "roundup_power2_divisions:4",
    "roundup-list": "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "large-64": "large_segment_size_mb:64",
    "expandable-roundup": "expandable_segments:True,roundup_power2_divisions:8",
    "collecting": "per_process_memory_fraction:0.5,garbage_collection_threshold:0.6",
}
JOBS = {
    "gpt": ("gpt.py", "--steps", "3"),
    "llama-lengths": ("whatif.py", "llama"),
    "resnet": ("resnet50.py",),
    "detection": ("models/detect.py", "fasterrcnn"),
    "two-streams": ("whatif.py", "streams"),
    "fragmenting": ("whatif.py", "fragment"),
    "growing-cache": ("whatif.py", "cache"),
    "graphs": ("whatif.py", "graphs"),
    "mem-pool": ("whatif.py", "pools"),
    "full": ("whatif.py", "full"),
    "own-settings": ("whatif.py", "settings"),
    "fsdp-rank": ("distributed/sharded_llama.py", tempfile.gettempdir(), "7b"),
}
# How it is recorded: one of eight ranks, the others absent.
RECORDED = {"fsdp-rank": {"gpu": "8xh100", "options": ("--ranks", "3")}}
FAILS = {("full", "collecting")}  # half of the GPU is not enough for it: the job ends


@pytest.fixture(scope="module")
def run(vramtrace, tmp_path_factory):
    """run(job, conf, **options): a recording of a job under settings, made once."""

    @functools.cache
    def record(job, conf="", **options):
        folder = tmp_path_factory.mktemp(job)
        environment = {"PYTHONPATH": str(FOLDER)} | ({CONF: conf} if conf else {})
        return vramtrace.record(folder / "job.vtr", python(*JOBS[job]), env=environment, **RECORDED.get(job, {}), **options)

    return record


@pytest.fixture(scope="module")
def told(vramtrace, run):
    """told(job, *options): the one device of `whatif --json` of a job recorded with PyTorch's own settings."""

    def ask(job, *options):
        (device,) = vramtrace.json("whatif", *options, run(job).path)["devices"]
        return device

    return ask


@pytest.mark.parametrize("job", JOBS)
def test_recorded_settings_reserve_what_was_reported(told, job):
    device = told(job)
    assert device["events_compared"] > 20
    assert (device["events_differing"], device["model_exact"]) == (0, True)
    assert device["peak_reserved_bytes"] == device["recorded_peak_reserved_bytes"]
    assert device["peak_allocated_bytes"] == device["recorded_peak_allocated_bytes"]


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting != "own"])
@pytest.mark.parametrize("job", JOBS)
def test_a_prediction_is_what_a_run_reserves(vramtrace, told, run, job, setting):
    device = told(job, "--conf", SETTINGS[setting])
    done = run(job, SETTINGS[setting])
    assert (done.status == 0) == ((job, setting) not in FAILS), done.stderr
    (seen,) = vramtrace.json("report", done.path)["devices"]
    peak = seen["reserved"]["peak_bytes"]
    assert device["least_peak_reserved_bytes"] <= peak == device["peak_reserved_bytes"]
    assert device["oom"] == (seen["tensor"]["ooms"] > 0)


def test_documented_predictions():
    """docs/whatif.md has a row for each job, and names each setting."""
    page = (TREE / "docs" / "whatif.md").read_text()
    settings, code = page.split("Other code is compared")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", settings, re.M)) == {*JOBS, "vllm", "vllm-graphs"}
    assert all(f"`{conf}`" in page for conf in SETTINGS.values() if conf)


def test_a_smaller_gpu(vramtrace, told, run):
    """The first request that fails is the one at which the job fails on such a GPU."""
    for capacity in ("16GiB", "18GiB", "24GiB"):
        device = told("gpt", "--capacity", capacity)
        done = run("gpt", options=("--simulate-capacity", capacity))
        assert device["oom"] == (done.status != 0)
        (seen,) = vramtrace.json("report", done.path)["devices"]
        assert device["peak_reserved_bytes"] == seen["reserved"]["peak_bytes"]
        assert device["ooms"] == seen["tensor"]["ooms"]
        predicted = vramtrace.json("whatif", "--capacity", capacity, run("gpt").path)["findings"]
        found = vramtrace.json("oom", done.path)["findings"]
        assert [(one["verdict"], one["certainty"], one["facts"]) for one in predicted] == [(one["verdict"], one["certainty"], one["facts"]) for one in found]


def test_the_smallest_gpu(vramtrace, run):
    told = vramtrace.json("whatif", "--capacity", "unknown", run("gpt").path)
    fits = [gpu for gpu in told["gpus"] if not gpu["oom"]]
    assert told["smallest"] == fits[0]["gpu"]
    assert sorted(gpu["capacity_bytes"] for gpu in told["gpus"]) == [gpu["capacity_bytes"] for gpu in told["gpus"]]


def test_a_search_finds_what_a_run_saves(vramtrace, run):
    told = vramtrace.json("whatif", "--search", run("fragmenting").path)
    best = told["settings"][0]
    assert best["conf"] == told["best"] and len(told["settings"]) > 20
    own, saving = run("fragmenting").ledger, run("fragmenting", told["best"]).ledger
    assert saving["reserved_bytes.all.peak"] == best["peak_reserved_bytes"] < own["reserved_bytes.all.peak"] // 2


@pytest.mark.parametrize("job", ["fragmenting", "growing-cache"])
def test_the_drivers_pool(told, run, job):
    """PyTorch has the driver keep all that its pool ever had: what it counts as reserved then is what is said."""
    conf = "backend:cudaMallocAsync"
    device = told(job, "--conf", conf)
    assert device["peak_reserved_bytes"] == run(job, conf).ledger["reserved_bytes.all.peak"]
    assert not device["exact"]


def test_a_request_that_no_gpu_could_serve(vramtrace, record):
    done = record("whatif.py", "absurd")
    (device,) = vramtrace.json("whatif", done.path)["devices"]
    assert device["model_exact"] and device["ooms"] == 1
    assert vramtrace.json("whatif", "--capacity", "unlimited", "--no-caching", done.path)["devices"][0]["ooms"] == 1


@pytest.mark.parametrize("options", [[], ["--search"], ["--capacity", "unknown"], ["--capacity", "1GiB"]])
def test_lines_fit_on_a_screen(vramtrace, run, options):
    for job in ("fragmenting", "growing-cache"):
        done = vramtrace.call("whatif", *options, run(job).path)
        assert done.returncode == 0 and max(map(len, done.stdout.splitlines())) <= 80


def test_without_caching(told):
    device = told("fragmenting", "--no-caching")
    assert device["peak_reserved_bytes"] < device["recorded_peak_reserved_bytes"]
    assert device["driver_calls"] > 2 * device["recorded_driver_calls"]


@pytest.mark.parametrize(
    ("job", "setting"),
    [("fragmenting", "expandable"), ("two-streams", "own"), ("llama-lengths", "split-32"), ("growing-cache", "roundup"), ("full", "collecting")],
)
def test_pytorch_itself_serves_the_same(told, job, setting):
    device = told(job, "--conf", SETTINGS[setting], "--engine", "torch", "--python", sys.executable)
    assert device["torch_peak_reserved_bytes"] == device["peak_reserved_bytes"]
    assert device["torch_peak_allocated_bytes"] == device["peak_allocated_bytes"]
    assert device["torch_ooms"] == device["ooms"]


def test_no_pytorch_to_serve(vramtrace, run):
    done = vramtrace.call("whatif", "--engine", "torch", "--python", "/bin/false", run("two-streams").path)
    assert done.returncode == 2 and "PyTorch served no request" in done.stderr


def test_an_endless_gpu_serves_what_failed(told):
    assert told("full")["ooms"] == 1
    assert told("full", "--capacity", "unlimited")["saved_ooms"] == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--conf", "foo:1"], "Unrecognized key 'foo' in CUDA allocator config."),
        (["--conf", "max_split_size_mb:10"], "CachingAllocator option max_split_size_mb too small, must be >= 20"),
        (["--torch", "2.6", "--conf", "max_split_size_mb:20"], "too small, must be > 20"),
        (["--torch", "2.6", "--conf", "large_segment_size_mb:32"], "came with PyTorch 2.11"),
        (["--conf", "expandable_segments:true"], "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'"),
        (["--conf", "garbage_collection_threshold:1.5"], "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
        (["--conf", "roundup_power2_divisions:3"], "For roundups, the divisions has to be power of 2"),
        (["--conf", "roundup_power2_divisions:[100:2]"], "For roundups, the intervals have to be power of 2"),
        (["--conf", "backend:foo"], "Unknown allocator backend, options are native and cudaMallocAsync"),
        (["--conf", "max_split_size_mb"], "Expected ':'"),
        (["--gpu", "c64"], "there is no GPU 'c64'"),
        (["--capacity", "much"], "--capacity takes a size"),
        (["--torch", "1.4"], "--torch takes a version"),
    ],
)
def test_wrong_settings(vramtrace, run, options, said):
    done = vramtrace.call("whatif", *options, run("two-streams").path)
    assert done.returncode == 2 and said in done.stderr and not done.stdout


def test_nothing_to_replay(vramtrace):
    done = vramtrace.call("whatif", TREE / "tests" / "golden" / "v1" / "virtual-memory.vtr")
    assert done.returncode == 2 and "nothing to replay" in done.stderr


def test_a_recording_that_is_cut_off(vramtrace, run, tmp_path):
    """It is replayed up to where it ends, and that is said."""
    copy = tmp_path / "cut.vtr"
    copy.mkdir()
    (trace,) = run("growing-cache").path.glob("*.vtr")
    (copy / trace.name).write_bytes(trace.read_bytes()[: trace.stat().st_size * 2 // 3])
    done = vramtrace.call("whatif", "--conf", SETTINGS["expandable"], copy)
    assert done.returncode == 2 and "peak reserved" in done.stdout and "cut" in done.stderr


def test_a_snapshot_is_replayed(vramtrace, tmp_path, run):
    """What a recording exports as PyTorch's snapshot is replayed as the recording is."""
    path = run("two-streams").path
    done = vramtrace.call("export", "--format", "memory-viz", "-o", tmp_path / "job.pickle", path)
    assert done.returncode == 0, done.stderr
    (device,) = vramtrace.json("whatif", "--conf", SETTINGS["expandable"], tmp_path / "job.pickle")["devices"]
    (direct,) = vramtrace.json("whatif", "--conf", SETTINGS["expandable"], path)["devices"]
    assert device["requests"] == direct["requests"]
    assert abs(device["peak_reserved_bytes"] - direct["peak_reserved_bytes"]) <= 0.01 * direct["peak_reserved_bytes"]


def test_waste_is_measured_against_who_knows_the_future(vramtrace, told, run):
    """At least what was asked for at once, and no more than any allocator needed."""
    for job in ("fragmenting", "gpt", "resnet"):
        device = told(job, "--policy", "ideal")
        assert device["ideal_reserved_bytes"] <= device["peak_reserved_bytes"]
        assert 0.98 * device["peak_allocated_bytes"] < device["ideal_reserved_bytes"] < 1.1 * device["peak_allocated_bytes"]
    assert told("gpt")["ideal_reserved_bytes"] is None
    page = vramtrace.call("whatif", "--policy", "ideal", run("fragmenting").path).stdout
    assert re.search(r"Laid out by somebody who knows how long each block lives: .*; \d+\.\d% of\n  what is reserved is waste\.", page)


def test_figures_over_time(vramtrace, told, run):
    device = told("growing-cache", "--conf", "expandable_segments:True", "--points", "40")
    points = device["points"]
    assert len(points) == 40 and [p["time_ns"] for p in points] == sorted(p["time_ns"] for p in points)
    assert max(p["recorded_reserved_bytes"] for p in points) == device["recorded_peak_reserved_bytes"]
    assert max(p["reserved_bytes"] for p in points) == device["peak_reserved_bytes"]
    assert max(p["allocated_bytes"] for p in points) == device["peak_allocated_bytes"]
    assert all(p["unused_bytes"] <= p["reserved_bytes"] for p in points)
    (own,) = vramtrace.json("timeline", "--points", "40", run("growing-cache").path)["devices"]
    assert [p["recorded_reserved_bytes"] for p in points] == [p["reserved_bytes"] for p in own["points"]]
    assert told("growing-cache")["points"] == []
    page = vramtrace.call("whatif", "--points", "5", run("growing-cache").path).stdout
    assert len(re.findall(r"^ *[\d.]+ m?s( +[\d.]+ [KMG]iB){4}$", page, re.M)) == 5
    assert vramtrace.call("whatif", "--points", "100000", run("growing-cache").path).returncode == 2

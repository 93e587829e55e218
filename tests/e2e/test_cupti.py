# SPDX-License-Identifier: MIT
"""CUPTI beside the hooks: it sees what they see, tells what they miss, and makes way for every other client."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from harness import TREE, program_environment, python, trace_files

SOURCES = Path(__file__).parent / "cupti"
FAKE_DRIVER = TREE / "tests" / "preload" / "fake_driver.c"
MIB = 1 << 20
OFF = "off: calls past the hooks would go unnoticed"

# As CUPTI's records and as the recorder's events name where memory lies.
KINDS = {"device": ("device", "pool"), "pinned": ("pinned",), "managed": ("managed",)}


def facts(vramtrace, recording):
    """The one process that `info` shows, with what the recorder says of CUPTI as "cupti" and numbers."""
    (process,) = vramtrace.json("info", recording)["process_list"]
    said = process["info"]
    process["numbers"] = {key[6:]: int(value) for key, value in said.items() if key.startswith("cupti.")}
    process["cupti"] = said.get("cupti")
    return process


@pytest.fixture(scope="module")
def programs(vramtrace, compile_c, cuda_flags):
    """The C programs of these tests, by name."""
    return {
        "past_hooks": compile_c(SOURCES / "past_hooks.c", *cuda_flags, "-ldl"),
        "plugin": compile_c(SOURCES / "past_hooks.c", "-DPLUGIN", "-shared", "-fPIC", "-ldl"),
        "kinds": compile_c(SOURCES / "kinds.c", *cuda_flags, vramtrace.simgpu / "libcuda.so.1"),
        "client": compile_c(SOURCES / "client.c", *cuda_flags, "-ldl"),
    }


@pytest.fixture(scope="module")
def with_cupti(vramtrace, tmp_path_factory):
    """with_cupti(job, *arguments): the recording of a job with --cupti, made once."""
    done = {}

    def record(*command):
        if command not in done:
            output = tmp_path_factory.mktemp("cupti") / "job.vtr"
            done[command] = vramtrace.record(output, python(*command), options=["--cupti"])
        return done[command]

    return record


# ---- it agrees with the hooks -------------------------------------------------------------------

JOBS = ["mlp.py", "fill_until_oom.py --catch", pytest.param("threads.py", marks=pytest.mark.slow)]


@pytest.mark.parametrize("job", JOBS)
def test_nothing_goes_past_the_hooks(vramtrace, with_cupti, job):
    """Every memory call of PyTorch that CUPTI tells of was seen by a hook, and the other way round."""
    done = with_cupti(*job.split())
    assert done.status == 0, done.stderr
    found = facts(vramtrace, done.path)
    assert found["cupti"].startswith("on (CUPTI 13")
    assert found["unhooked"] == {"allocs": 0, "bytes": 0, "frees": 0, "others": 0}
    assert found["numbers"]["unhooked"] == found["numbers"]["untold"] == 0
    assert found["numbers"]["calls"] > 0 and found["numbers"]["contexts"] == 1
    if job == "mlp.py":
        assert found["numbers"]["modules"] > 0 and found["numbers"]["module_bytes"] > 0
    assert found["complete"]


@pytest.mark.parametrize("job", JOBS)
def test_records_agree_with_the_events(vramtrace, events_of, with_cupti, job):
    """CUPTI's own records of memory count the calls and the bytes that the hooks recorded."""
    done = with_cupti(*job.split())
    numbers = facts(vramtrace, done.path)["numbers"]
    # What a simulated library would take is no call.
    events = [event for event in events_of(done.path) if event["kind"] == "driver_alloc" and not event.get("modelled")]
    for kind, spaces in KINDS.items():
        of_kind = [event for event in events if event["space"] in spaces]
        assert numbers.get(f"{kind}.allocs", 0) == len(of_kind), kind
        assert numbers.get(f"{kind}.alloc_bytes", 0) == sum(event["size"] for event in of_kind), kind
    assert numbers["records"] > 0 and numbers["records_lost"] == 0


def test_records_of_every_kind(vramtrace, programs, tmp_path):
    """Sums by kind of memory, pools among them; modules have the size of their code, once."""
    done = vramtrace.record(tmp_path / "o.vtr", [programs["kinds"]], options=["--cupti"])
    assert (done.status, done.stderr) == (0, "")
    found = facts(vramtrace, tmp_path / "o.vtr")
    assert found["unhooked"] == {"allocs": 0, "bytes": 0, "frees": 0, "others": 0}
    numbers = found["numbers"]
    sums = {kind: [numbers.get(f"{kind}.{what}", 0) for what in ("allocs", "alloc_bytes", "frees", "free_bytes")]
            for kind in ("device", "pinned", "managed")}
    assert sums == {
        "device": [4, 16 * MIB, 3, 9 * MIB],
        "pinned": [1, 2 * MIB, 1, 2 * MIB],
        "managed": [1, 4 * MIB, 1, 4 * MIB],
    }
    assert numbers["pools"] == 1
    assert 5 * MIB <= numbers["pool_used_peak_bytes"] <= numbers["pool_peak_bytes"]
    assert (numbers["untold"], numbers["modules"]) == (0, 2)
    made = [event for event in vramtrace.events(tmp_path / "o.vtr") if event["kind"] == "object_new"]
    sizes = [event["size"] for event in made if event["object"] in ("module", "library")]
    assert len(sizes) == 2 and sizes[0] == sizes[1] > 0
    assert numbers["module_bytes"] == sum(sizes)


@pytest.mark.parametrize("job", JOBS)
def test_the_job_does_not_notice(vramtrace, with_cupti, untraced, job):
    done, plain = with_cupti(*job.split()), untraced(*job.split())
    assert (done.status, done.stderr) == (plain.status, plain.stderr)
    (device,) = vramtrace.json("report", done.path)["devices"]
    assert device["tensor"]["peak_bytes"] == done.ledger["allocated_bytes.all.peak"]
    assert device["tensor"]["allocs"] == done.ledger["allocation.all.allocated"]
    assert device["tensor"]["frees"] == done.ledger["allocation.all.freed"]
    assert device["reserved"]["peak_bytes"] == done.ledger["reserved_bytes.all.peak"]
    # Which thread reuses which block first is not fixed, nor at which addresses segments lie, and so how they split.
    fixed = ["allocation.all.allocated", "allocation.all.freed", "num_ooms"]
    fixed += ["allocated_bytes.all.peak", "reserved_bytes.all.peak"] if job != "threads.py" else []
    assert {name: done.ledger[name] for name in fixed} == {name: plain.ledger[name] for name in fixed}


# ---- what the hooks miss ------------------------------------------------------------------------


def run_past_hooks(vramtrace, programs, output, *options, env=None):
    done = vramtrace.record(output, [programs["past_hooks"], programs["plugin"]], options=options, env=env)
    assert done.status == 0, done.stderr
    return [int(word, 16) for word in done.stdout.split()]


@pytest.mark.parametrize("options", [["--cupti"], ["--cupti=auto"]])
def test_calls_past_the_hooks_are_shown(vramtrace, programs, tmp_path, options):
    """A plugin with its own dlsym: exactly its two allocations and one free, with address, size and name."""
    addresses = run_past_hooks(vramtrace, programs, tmp_path / "o.vtr", *options)
    found = facts(vramtrace, tmp_path / "o.vtr")
    assert found["unhooked"] == {"allocs": 2, "bytes": 64 * MIB, "frees": 1, "others": 0}
    assert found["numbers"]["unhooked"] == 3 and found["numbers"]["untold"] == 0
    events = [event for event in vramtrace.events(tmp_path / "o.vtr") if event["kind"] == "unhooked"]
    assert [(event["address"], event["size"], event["call"], event["action"]) for event in events] == [
        (addresses[0], 48 * MIB, "cuMemAlloc_v2", 0),
        (addresses[1], 16 * MIB, "cuMemAlloc_v2", 0),
        (addresses[1], 0, "cuMemFree_v2", 1),
    ]
    report = vramtrace.json("report", tmp_path / "o.vtr")
    (process,) = report["process_list"]
    assert process["unhooked"] == found["unhooked"] and process["cupti"] == found["cupti"]
    # They are in no ledger: what the hooks saw is all there.
    assert report["devices"][0]["driver"]["peak_bytes"] == 10 * MIB
    line = "2 allocations (64.0 MiB), 1 free; first cuMemAlloc_v2"
    assert f"past the hooks: {line}" in vramtrace.call("report", tmp_path / "o.vtr").stdout
    assert line in vramtrace.call("info", tmp_path / "o.vtr").stdout


@pytest.mark.parametrize("options", [["--cupti=off"], []])
def test_without_cupti_nobody_tells(vramtrace, programs, tmp_path, options):
    run_past_hooks(vramtrace, programs, tmp_path / "o.vtr", *options)
    found = facts(vramtrace, tmp_path / "o.vtr")
    assert (found["cupti"], found["numbers"]) == (OFF, {})
    assert OFF in vramtrace.call("info", tmp_path / "o.vtr").stdout
    assert found["unhooked"] == {"allocs": 0, "bytes": 0, "frees": 0, "others": 0}


# ---- nobody else is hurt --------------------------------------------------------------------------


def test_the_profiler_has_all_its_events(vramtrace, tmp_path):
    """torch.profiler finds the slot free: the profile is what it is without us, and the trace says so."""
    printed = {}
    for mode in ("on", "off"):
        (tmp_path / mode).mkdir()
        program = [sys.executable, SOURCES / "profiled.py", tmp_path / mode]
        done = vramtrace.record(tmp_path / f"{mode}.vtr", program, options=[f"--cupti={mode}"])
        assert done.status == 0, done.stderr
        printed[mode] = done.stdout, done.stderr
    assert printed["on"] == printed["off"]
    given_up = facts(vramtrace, tmp_path / "on.vtr")
    assert given_up["cupti"].startswith("given up after ")
    assert given_up["cupti"].endswith(": another client subscribed")
    assert given_up["numbers"]["calls"] > 0
    assert given_up["unhooked"]["allocs"] == 0


@pytest.mark.parametrize(
    ("when", "status"),
    [("before", "refused: held by 'CUPTI for another tool'"), ("after", ": another client looked CUPTI up")],
)
def test_another_client_gets_all_it_asked_for(vramtrace, programs, tmp_path, when, status):
    """A client that comes first keeps the slot, one that comes later gets it; each is told of all five calls."""
    done = vramtrace.record(tmp_path / "o.vtr", [programs["client"], when], options=["--cupti"])
    assert (done.status, done.stdout, done.stderr) == (0, "0 10 5\n", "")
    found = facts(vramtrace, tmp_path / "o.vtr")
    assert found["cupti"].endswith(status)
    # The hooks go on.
    events = Counter(event["kind"] for event in vramtrace.events(tmp_path / "o.vtr") if not event.get("modelled"))
    assert events["driver_alloc"] == (5 if when == "before" else 6)


def test_a_client_of_records_only_keeps_them(vramtrace, programs, tmp_path):
    """It has no slot that could be found taken, and CUPTI has one pair of callbacks for records."""
    done = vramtrace.record(tmp_path / "o.vtr", [programs["client"], "records"], options=["--cupti"])
    assert (done.status, done.stdout, done.stderr) == (0, "0 0 5\n", "")
    found = facts(vramtrace, tmp_path / "o.vtr")
    assert (found["cupti"], found["numbers"]) == ("off: the program uses CUPTI", {})


def test_nobody_subscribes_unless_asked(vramtrace, programs, fakes, recorded, tmp_path):
    """Neither in a C program nor in Python: CUPTI is not even loaded."""
    assert facts(vramtrace, recorded("mlp.py").path)["cupti"] == OFF
    said = record_with_fakes(vramtrace, fakes, tmp_path / "o.vtr", VRAMTRACE_CUPTI="", FAKE_LOADED=str(tmp_path / "loaded"))
    assert said["cupti"] == OFF and not (tmp_path / "loaded").exists()
    said = record_with_fakes(vramtrace, fakes, tmp_path / "p.vtr", FAKE_LOADED=str(tmp_path / "loaded"))
    assert said["cupti"].startswith("on ") and (tmp_path / "loaded").exists()


def test_auto_leaves_python_alone(vramtrace, record):
    done = record("mlp.py", options=["--cupti=auto"])
    assert facts(vramtrace, done.path)["cupti"] == "off: in Python a profiler may want CUPTI"


@pytest.mark.parametrize("variable", ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID"])
def test_auto_leaves_injected_tools_alone(vramtrace, programs, tmp_path, variable):
    run_past_hooks(vramtrace, programs, tmp_path / "o.vtr", "--cupti=auto", env={variable: "/no/such/tool.so"})
    assert facts(vramtrace, tmp_path / "o.vtr")["cupti"] == "off: another tool is injected"


# ---- no CUPTI, or another than expected -----------------------------------------------------------


@pytest.fixture(scope="module")
def fakes(compile_c, tmp_path_factory):
    """A folder with a driver of a few functions and a CUPTI that does as it is told, and a program for them."""
    folder = tmp_path_factory.mktemp("fakes")
    cc = os.environ.get("CC", "cc")
    for source, name, flags in [
        (FAKE_DRIVER, "libcuda.so.1", ["-DDRIVER_VERSION=13000"]),
        (SOURCES / "fake_cupti.c", "libcupti.so.13", []),
    ]:
        command = [cc, "-shared", "-fPIC", *flags, source, f"-Wl,-soname,{name}", "-Wl,-Bsymbolic", "-o", folder / name]
        subprocess.run(list(map(str, command)), check=True)
    return folder


ALLOCATING = """
import ctypes, os, sys
cuda, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
for program in sys.argv[1:]:
    assert not cuda.cuInit(0) and not cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096))
    if program == "fork" and os.fork():
        assert os.wait()[1] == 0
        sys.exit()
"""


def run_with_fakes(vramtrace, fakes, output, *arguments, **more):
    env = program_environment({"LD_LIBRARY_PATH": str(fakes), "VRAMTRACE_CUPTI": "on"} | more)
    command = [vramtrace.program, "run", "-q", "-o", output, "--", sys.executable, "-c", ALLOCATING, *arguments]
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def record_with_fakes(vramtrace, fakes, output, **more):
    run_with_fakes(vramtrace, fakes, output, "allocate", **more)
    found = facts(vramtrace, output)
    assert found["events"] > 0 and found["lost_events"] == 0
    return found


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (39, "refused: another tool holds it"),
        (12, "refused: another tool holds it"),
        (999, "refused: CUPTI error 999 (CUPTI_ERROR_UNKNOWN)"),
        (0, "on (CUPTI 130000)"),
    ],
)
def test_refusals(vramtrace, fakes, tmp_path, result, status):
    found = record_with_fakes(vramtrace, fakes, tmp_path / "o.vtr", FAKE_RESULT=str(result))
    assert found["cupti"] == status
    assert bool(found["numbers"]) == (result == 0)


def test_the_real_cupti_without_a_gpu(vramtrace, fakes, tmp_path):
    """It refuses a driver that is none, and leaves the program alone."""
    real = next((path for place in sys.path for path in Path(place).glob("nvidia/*/lib/libcupti.so.13")), None)
    if not real:
        pytest.skip("no libcupti.so.13 in this Python environment")
    (tmp_path / "libcuda.so.1").symlink_to(fakes / "libcuda.so.1")
    (tmp_path / "libcupti.so.13").symlink_to(real)
    found = record_with_fakes(vramtrace, tmp_path, tmp_path / "o.vtr")
    assert found["cupti"].startswith("refused: CUPTI error 999")
    assert found["numbers"] == {}


def test_a_later_cupti_gives_no_records(vramtrace, fakes, tmp_path):
    found = record_with_fakes(vramtrace, fakes, tmp_path / "o.vtr", FAKE_VERSION="990000")
    assert found["cupti"] == "on (CUPTI 990000, whose records are not known: none are asked for)"
    assert "records" not in found["numbers"]


def test_absent(vramtrace, fakes, compile_c, tmp_path):
    """A driver that does not tell its version fits no CUPTI."""
    folder = tmp_path / "driver"
    folder.mkdir()
    compile_flags = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic"]
    compile_c(FAKE_DRIVER, *compile_flags).rename(folder / "libcuda.so.1")
    found = record_with_fakes(vramtrace, folder, tmp_path / "o.vtr")
    assert (found["cupti"], found["numbers"]) == ("absent", {})


def test_fork_child(vramtrace, fakes, tmp_path):
    """A child inherits CUPTI's state, not its slot: it records without."""
    run_with_fakes(vramtrace, fakes, tmp_path / "o.vtr", "fork", "allocate")
    said = sorted(facts(vramtrace, trace)["cupti"] for trace in trace_files(tmp_path / "o.vtr"))
    assert said == ["off: this process was forked from one that used it", "on (CUPTI 130000)"]


def test_a_wrong_setting_is_noted(vramtrace, programs, tmp_path):
    run_past_hooks(vramtrace, programs, tmp_path / "o.vtr", env={"VRAMTRACE_CUPTI": "maybe"})
    found = facts(vramtrace, tmp_path / "o.vtr")
    assert "VRAMTRACE_CUPTI='maybe' is not off, on or auto: off taken" in found["notes"]
    assert found["cupti"] == OFF
    done = vramtrace.call("run", "--cupti=maybe", "--", "true")
    assert done.returncode == 125
    assert "'maybe' is not one of on, auto, off for '--cupti'" in done.stderr


# ---- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("job", ["mlp.py", "threads.py"])
def test_on_a_gpu(vramtrace, tmp_path, job):
    """The same agreement with the real CUPTI, and modules that the runtime loads by itself."""
    command = [vramtrace.program, "run", "-q", "--cupti", "-o", tmp_path / "o.vtr", "--", *python(job)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=program_environment())
    assert done.returncode == 0, done.stderr
    ledger = json.loads(done.stdout.splitlines()[-1])
    found = facts(vramtrace, tmp_path / "o.vtr")
    assert found["cupti"].startswith("on (CUPTI ")
    assert found["unhooked"]["allocs"] == found["unhooked"]["frees"] == 0
    assert found["numbers"]["untold"] == 0
    assert found["numbers"]["modules"] > 0 and found["numbers"]["module_bytes"] > 0
    (device,) = vramtrace.json("report", tmp_path / "o.vtr")["devices"]
    assert device["tensor"]["peak_bytes"] == ledger["allocated_bytes.all.peak"]


@pytest.mark.gpu
def test_the_profiler_on_a_gpu(vramtrace, tmp_path):
    """Kernels, copies and runtime calls of a profile: as many with us as without."""
    counts = {}
    for mode in ("on", "off"):
        (tmp_path / mode).mkdir()
        program = [sys.executable, SOURCES / "profiled.py", tmp_path / mode]
        command = [vramtrace.program, "run", "-q", f"--cupti={mode}", "-o", tmp_path / f"{mode}.vtr", "--", *program]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=program_environment())
        assert done.returncode == 0, done.stderr
        counts[mode] = dict(json.loads(done.stdout.splitlines()[0]))
    assert counts["on"]["kernel"] == counts["off"]["kernel"] > 0
    assert counts["on"].get("gpu_memcpy") == counts["off"].get("gpu_memcpy")
    assert facts(vramtrace, tmp_path / "on.vtr")["cupti"].startswith("given up after ")

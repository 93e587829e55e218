# SPDX-License-Identifier: MIT
"""What a simulated run says about itself: modelled memory, and places that depend on values nobody computed.

A small library between the recorder and the simulated GPU tells what the job says (tests/preload/told_facts.c), so
that every figure here is known beforehand.
"""

import re
import subprocess
from pathlib import Path

import pytest

from harness import JOBS, LIMIT_S, TREE, Recorded, adds_up, python, trace_files

MIB = 1 << 20
JOB = (JOBS / "told_facts.py").read_text().splitlines()


def line_of(text, nth=0):
    """The line number of the nth line of the job that contains `text`."""
    return [number for number, line in enumerate(JOB, 1) if text in line][nth]


@pytest.fixture(scope="module")
def told(vramtrace, compile_c, tmp_path_factory):
    """told(*arguments, ...): a recording of the job."""
    library = compile_c(TREE / "tests/preload/told_facts.c", "-shared", "-fPIC", f"-I{TREE}")

    def run(*arguments, **variables):
        path = tmp_path_factory.mktemp("told") / "told.vtr"
        preloads = vramtrace.interpose, library, vramtrace.simgpu / "libsimgpu.so"
        done = subprocess.run(
            [str(word) for word in python("told_facts.py", *arguments)],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            # Between the first allocation and the end no samples: whether there is time for one differs from run to run.
            env=vramtrace.preload_environment(
                *preloads, VRAMTRACE_OUTPUT=path, VRAMTRACE_SAMPLE_MIB="4096", **variables
            ),
        )
        assert (done.returncode, done.stderr) == (0, "")
        return Recorded(Path(path), done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="module")
def facts(told):
    return told()


@pytest.fixture(scope="module")
def report(vramtrace, facts):
    return vramtrace.json("report", facts.path)


def test_the_ledger_is_pytorchs_with_and_without_models(facts, report):
    (device,) = report["devices"]
    assert report["recording"]["complete"] and device["exact"]
    assert device["tensor"]["peak_bytes"] == facts.ledger["allocated_peak"]
    assert device["reserved"]["peak_bytes"] == facts.ledger["reserved_peak"]
    assert device["driver"]["allocs"] == 2  # calls: what is modelled is none


def test_modelled_memory_of_libraries_counts_by_owner(report):
    (device,) = report["devices"]
    owners = device["driver"]["by_owner_at_peak"]
    assert owners["nccl"] == 96 * MIB and owners["cudnn"] == 16 * MIB and owners["unknown"] == MIB
    assert owners["torch"] == device["reserved"]["peak_bytes"]
    assert sum(owners.values()) == device["driver"]["peak_bytes"]
    assert device["driver"]["live_at_end_bytes"] == device["reserved"]["end_bytes"] + 65 * MIB
    assert device["modelled"] == {
        "nccl": 96 * MIB,
        "cudnn": 16 * MIB,
        "unknown": MIB,
        "context": 300 * MIB,
        "code": 45 * MIB,
    }


def test_context_and_code_are_told_apart_from_the_unknown(facts, report):
    (device,) = report["devices"]
    residual = device["residual"]["at_driver_peak"]
    assert (residual["context"], residual["code"]) == (300 * MIB, 45 * MIB)
    # The driver was asked after the first segment, and knew nothing of what is told here.
    assert residual["unknown"] == facts.ledger["used_bytes"] - (20 + 340) * MIB
    assert adds_up(device) == facts.ledger["used_bytes"] + (20 + 113 + 5) * MIB
    assert device["residual"]["peak_bytes"] == facts.ledger["used_bytes"] - (20 - 5) * MIB


def test_what_is_modelled_is_an_event_in_its_place(vramtrace, facts, events_of):
    events = events_of(facts.path)
    modelled = [event for event in events if event["modelled"]]
    assert [event["call"] for event in modelled[:2]] == ["context", "code"]  # live before anybody listened
    assert events.index(modelled[1]) < [event["call"] for event in events].index("cudaMalloc")
    assert {event["kind"] for event in modelled} == {"driver_alloc", "driver_free"}
    assert all(event["address"] >> 63 for event in modelled)
    assert not any(event["address"] >> 63 for event in events if not event["modelled"])
    frees = [event for event in modelled if event["kind"] == "driver_free"]
    assert [(event["call"], event["size"]) for event in frees] == [
        ("nccl", 32 * MIB),
        ("cudnn", 16 * MIB),
        ("code", 5 * MIB),
    ]
    for event in frees:
        assert events[event["alloc_ordinal"]]["address"] == event["address"]
    for event in modelled[2:]:
        assert event["python"][0]["file"].endswith("told_facts.py")


def test_places_that_depend_on_data(report):
    (process,) = report["process_list"]
    places = [(place["site"]["line"], place["reads"], place["bytes"]) for place in process["data_dependent"]]
    assert places == [
        (line_of("ctypes.c_uint64(4), 1)"), 10, 40),  # five reads each on two threads
        (line_of("ctypes.c_uint64(8), 2)"), 4, 32),
        (line_of('space["read"]()'), 1, 1),  # through the shadow, whose frames are nobody's place
    ]
    assert {place["site"]["function"] for place in process["data_dependent"]} == {"two_places", "<module>"}
    times = [place["first_time_ns"] for place in process["data_dependent"]]
    assert times == sorted(times)


def test_the_shadow_is_nobodys_place_of_allocation(vramtrace, facts):
    (device,) = vramtrace.json("peak", facts.path)["devices"]
    sites = {(group["site"]["file"], group["site"]["line"]) for group in device["groups"]}
    assert (str(JOBS / "told_facts.py"), line_of('space["read"]()')) in sites
    assert not any(file.startswith("<simgpu") for file, line in sites)
    assert "<simgpu values>" not in vramtrace.call("peak", facts.path).stdout
    assert "<simgpu values>" in vramtrace.call("peak", "-v", facts.path).stdout


def test_the_first_page_says_so(vramtrace, facts):
    done = vramtrace.call("report", facts.path)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert len(lines) <= 24
    assert max(len(line) for line in lines if str(facts.path) not in line) <= 80
    (at,) = [i for i, line in enumerate(lines) if "outside PyTorch" in line]
    assert lines[at].endswith("   618 MiB   3 libraries 113 MiB, context 300 MiB,")
    assert lines[at + 1].strip() == "code 45.0 MiB (modelled), unknown 160 MiB"
    number = line_of("ctypes.c_uint64(4), 1)")
    assert f"data-dependent: 3 places, first at told_facts.py:{number} (10 reads); all: -v" in lines


def test_all_of_it_is_said_when_asked(vramtrace, facts):
    text = vramtrace.call("report", "-v", facts.path).stdout
    assert text.count("told_facts.py:") >= 3
    for words in ("NCCL +96.0 MiB   modelled", "cuDNN +16.0 MiB", "context +300 MiB", "code +45.0 MiB", "in two_places"):
        assert re.search(words, text), words


def test_other_commands_know_the_events(vramtrace, facts):
    (process,) = vramtrace.json("info", facts.path)["process_list"]
    assert process["value_reads"] == 15
    assert "values read" in vramtrace.call("info", facts.path).stdout
    only = vramtrace.call("dump", "--kind", "value_read", facts.path).stdout.splitlines()
    assert len(only) == 15 and all("value_read" in line for line in only)
    assert vramtrace.call("verify", facts.path).returncode == 0


def test_every_read_is_an_event_and_costs_little(vramtrace, told, facts):
    """A program may read a value in every step: 200,000 reads are counted, and the trace stays small."""
    times = 200_000
    run = told(times)
    (process,) = vramtrace.json("report", run.path)["process_list"]
    assert process["complete"] and process["data_dependent"][-1]["reads"] == times
    (before,), (after,) = trace_files(facts.path), trace_files(run.path)
    assert after.stat().st_size - before.stat().st_size < 4 * times


def test_without_stacks_reads_are_counted_all_the_same(vramtrace, told):
    run = told(VRAMTRACE_STACKS="none")
    (process,) = vramtrace.json("report", run.path)["process_list"]
    (place,) = process["data_dependent"]
    assert place["reads"] == 15 and place["site"] == {"file": None, "line": None, "function": None}
    assert "data-dependent: 1 place, first at an unknown place (15 reads)" in vramtrace.call("report", run.path).stdout


def test_a_run_without_such_facts_says_nothing_of_them(vramtrace, recorded):
    report = vramtrace.json("report", recorded("ending.py", "return").path)
    assert report["process_list"][0]["data_dependent"] == []
    assert report["repeat"] is None
    text = vramtrace.call("report", recorded("ending.py", "return").path).stdout
    assert "data-dependent" not in text and "one sample" not in text

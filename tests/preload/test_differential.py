# SPDX-License-Identifier: MIT
"""Random calls, valid and not: the recorder changes nothing that a program can see, and its ledger is the program's."""
import json
import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).absolute()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    result = tmp_path_factory.mktemp("programs") / "differential"
    flags = (BUILD / "cuda.flags").read_text().split()
    subprocess.run([os.environ.get("CC", "gcc"), "-O1", "-g", "-D_GNU_SOURCE", HERE / "differential.c", "-o", result, *flags,
                    f"-L{BUILD}/simgpu", "-l:libcuda.so.1", "-lpthread"], check=True)
    return result


def run(program, seed, calls, threads, *options):
    return subprocess.run([BUILD / "vramtrace", "run", "-q", "--simulate", "h100", *options, "--", program, str(seed),
                           str(calls), str(threads)], capture_output=True, text=True, timeout=120)


def compare(program, tmp_path, seed, nr_calls, threads):
    plain = run(program, seed, nr_calls, threads, "--no-record")
    recorded = run(program, seed, nr_calls, threads, "-o", tmp_path / "o.vtr")
    assert (plain.returncode, recorded.returncode) == (0, 0), recorded.stderr
    *calls, last = recorded.stdout.splitlines()
    assert len(calls) > nr_calls // 2
    assert calls == plain.stdout.splitlines()[:-1]

    model = json.loads(last)
    shown = json.loads(subprocess.run([BUILD / "vramtrace", "report", "--json", tmp_path / "o.vtr"], check=True,
                                      capture_output=True, text=True).stdout)
    driver, process = shown["devices"][0]["driver"], shown["process_list"][0]
    assert shown["recording"]["lost_events"] == 0
    assert driver["live_at_end_bytes"] == model["live"]
    if threads == 1:  # with more, when each call happened is known up to the calls in flight
        assert driver["peak_bytes"] == model["peak"]
        assert process["managed"]["peak_bytes"] == model["managed_peak"]
        assert process["pinned"]["peak_bytes"] == model["pinned_peak"]


@pytest.mark.parametrize("seed, threads", [(1, 1), (2, 1), (3, 4), (4, 4), (5, 16)])
def test_nothing_that_the_program_sees_is_different(program, tmp_path, seed, threads):
    compare(program, tmp_path, seed, 10000, threads)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4])
def test_ten_thousand_sequences(program, tmp_path, threads):
    """Each sequence of 25 calls begins with what the ones before have left."""
    compare(program, tmp_path, 100 + threads, 10000 * 25, threads)

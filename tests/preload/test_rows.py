# SPDX-License-Identifier: MIT
"""
Every row of hooks.def: what its calls, good and bad, leave in the trace. The programs rows_*.c print the events
that must be there; rows_driver.c stands in for a driver with what the simulated GPU does not have.
"""
import collections
import functools
import json
import os
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).absolute()
HOOKS = HERE.parent.parent / "libinterpose" / "hooks.def"
PROGRAMS = sorted(p.stem for p in HERE.glob("rows_*.c") if p.stem != "rows_driver")
OTHER_DRIVER = {"rows_other"}  # those that need rows_driver.c

# Not the calls' own: samples, and what a simulated library would have taken.
SAMPLES = {"memory_info", "process_info", "unhooked"}

recorded_calls = set()
cases_run = set()


@functools.cache
def program(name):
    """The program, built once."""
    out = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"vramtrace-rows-{os.getpid()}"
    out.mkdir(exist_ok=True)
    flags = (BUILD / "cuda.flags").read_text().split()
    headers = [f for a, b in zip(flags, flags[1:]) if a == "-isystem" for f in (a, b)]
    cc = [os.environ.get("CC", "gcc"), "-O1", "-g", "-D_GNU_SOURCE", "-Wall", "-Wno-unused-function"]
    if name in OTHER_DRIVER:
        library = out / "driver"
        library.mkdir(exist_ok=True)
        for soname, *define in (["libcuda.so.1"], ["libcudart.so.13", "-DRUNTIME"]):
            subprocess.run([*cc, "-shared", "-fPIC", *define, HERE / "rows_driver.c", *headers, "-Wl,-Bsymbolic",
                            f"-Wl,-soname,{soname}", "-o", library / soname], check=True)
        link = [*headers, library / "libcudart.so.13", library / "libcuda.so.1", f"-Wl,-rpath,{library}"]
    else:
        link = [*flags, f"-L{BUILD}/simgpu", "-l:libcuda.so.1"]
    subprocess.run([*cc, HERE / f"{name}.c", *link, "-o", out / name], check=True)
    return out / name


def cases():
    for name in PROGRAMS:
        for case in re.findall(r"CASE\((\w+)\)[,)]", (HERE / f"{name}.c").read_text()):
            yield name, case


def record(name, case, recording):
    """Run one case under the recorder; the events it says must be there."""
    env = dict(os.environ, VRAMTRACE_CUPTI="off")
    if name in OTHER_DRIVER:
        env |= {"LD_PRELOAD": str(BUILD / "libinterpose.so"), "VRAMTRACE_OUTPUT": str(recording)}
        command = [program(name), case]
    else:
        command = [BUILD / "vramtrace", "run", "-q", "--simulate", "2xh100", "-o", recording, "--", program(name),
                   case]
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return [json.loads(line) for line in result.stdout.splitlines()]


def is_wanted(event, about_contexts):
    if event["kind"] in SAMPLES or event.get("modelled") or (event["kind"] == "pool_info" and event["address"]):
        return False
    return about_contexts or event.get("object") != "context" or event["kind"] == "object_set"


def vramtrace(command, recording):
    return subprocess.run([BUILD / "vramtrace", command, "--json", recording], check=True, capture_output=True,
                          text=True).stdout


def dumped(recording):
    events = [json.loads(line) for line in vramtrace("dump", recording).splitlines()]
    events = [e for e in events if "kind" in e]
    for e in events:
        e["what"] = e.get("space") or e.get("object") or ""
    return events


def live_bytes(recording):
    return sum(d["driver"]["live_at_end_bytes"] for d in json.loads(vramtrace("report", recording))["devices"])


@pytest.mark.parametrize("name, case", [pytest.param(*c, id=c[1]) for c in cases()])
def test_row(tmp_path, name, case):
    said = record(name, case, tmp_path / "o.vtr")
    wanted = [line for line in said if "kind" in line]
    live = [line["live"] for line in said if "live" in line]
    events = dumped(tmp_path / "o.vtr")
    recorded_calls.update(e["call"] for e in events if e["call"])
    cases_run.add((name, case))
    about_contexts = any(w["what"] == "context" and w["kind"] != "object_set" for w in wanted)
    found = [e for e in events if is_wanted(e, about_contexts)]
    assert [{k: e.get(k) for k in w} for e, w in zip(found, wanted)] == wanted
    assert found[len(wanted):] == []
    if live:
        assert live_bytes(tmp_path / "o.vtr") == live[-1]


def test_every_row_has_a_case():
    """
    The calls of all cases, as the traces name them, are the rows of hooks.def; the rest record nothing themselves:
    lookups are test_lookup_all.py's, captures the case's that says so.
    """
    if cases_run != set(cases()):
        pytest.skip("not all cases have been run")
    text = HOOKS.read_text()
    rows = set(re.findall(r"^(?:DRIVER|RUNTIME)\((\w+),", text, re.M))
    silent = r"cuInit$|cuGetProcAddress|cudaGetDriverEntryPoint|cuStream(Begin|End)Capture|cuStreamDestroy"
    rows = {r for r in rows if not re.match(silent, r)}
    assert sorted(rows - recorded_calls) == []


def test_rows_name_their_functions_once():
    names = re.findall(r"^(?:DRIVER|RUNTIME)\((\w+),", HOOKS.read_text(), re.M)
    assert [n for n, count in collections.Counter(names).items() if count > 1] == []

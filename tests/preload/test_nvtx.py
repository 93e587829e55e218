# SPDX-License-Identifier: MIT
"""NVTX: what programs and libraries say through their own copies of it, and other tools that listen as well."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).absolute()
INTERPOSE = BUILD / "libinterpose.so"
NONE = -2  # NVTX_NO_PUSH_POP_TRACKING: what push and pop return where no tool says otherwise
KINDS = "range_push,range_pop,range_start,range_end,mark,driver_alloc,driver_free"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    out = tmp_path_factory.mktemp("nvtx")
    cc = [os.environ.get("CC", "gcc"), "-O1", "-g"]
    include = [flag for flag in (BUILD / "cuda.flags").read_text().split() if not flag.endswith(".so.13")]
    include = include[:2 * include.count("-isystem")]
    driver = out / "libcuda.so.1"
    subprocess.run([*cc, "-shared", "-fPIC", HERE / "fake_driver.c", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1",
                    "-o", driver], check=True)
    subprocess.run([*cc, *include, HERE / "nvtx_program.c", "-o", out / "program", driver, f"-Wl,-rpath,{out}",
                    "-lpthread", "-ldl"], check=True)
    subprocess.run([*cc, *include, "-shared", "-fPIC", "-DLIBRARY", HERE / "nvtx_program.c", "-o", out / "library.so"],
                   check=True)
    subprocess.run([*cc, *include, "-shared", "-fPIC", HERE / "nvtx_tool.c", "-o", out / "tool.so"], check=True)
    return out


def plain_environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VRAMTRACE_", "NVTX_"))}
    return kept | {name: str(value) for name, value in more.items()}


def traced_environment(recording, **more):
    return plain_environment(LD_PRELOAD=INTERPOSE, VRAMTRACE_OUTPUT=recording, VRAMTRACE_JOB="test", **more)


def run(program, *arguments, env):
    done = subprocess.run([program, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def ask(command, recording, *options):
    done = subprocess.run([BUILD / "vramtrace", command, "--json", *options, recording], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def events_of(recording):
    return [json.loads(line) for line in ask("dump", recording, "--kind", KINDS).splitlines()]


def info_of(recording):
    return json.loads(ask("info", recording))["process_list"]


def text_of(event):
    """A range event in a word or two; an allocation as its size in KiB."""
    if event["kind"] == "driver_alloc":
        return event["size"] / 1024
    domain = f"{event['domain']}: " if event.get("domain") else ""
    return f"{event['kind'].removeprefix('range_')} {domain}{event.get('name', '')}".strip()


def traced(programs, tmp_path, what, *arguments, **more):
    """(output, events in words) of the program under the recorder; untraced, it prints the same."""
    output = run(programs / "program", what, *arguments, env=traced_environment(tmp_path / "o.vtr", **more))
    assert output == run(programs / "program", what, *arguments, env=plain_environment(**more))
    return output, [text_of(e) for e in events_of(tmp_path / "o.vtr")]


def test_every_function(programs, tmp_path):
    output, events = traced(programs, tmp_path, "all")
    assert output.split() == f"push {NONE} {NONE} {NONE} pop {NONE} {NONE} {NONE} domain push {NONE} {NONE} " \
                             f"domain pop {NONE} domain pop {NONE}".split()
    pushes = events[1:4]  # in the order in which the compiler has printf's arguments evaluated
    assert sorted(pushes) == ["push attributes", "push plain", "push wide push"]
    assert events[4:8] == [1, "mark mark", "mark wide mark", "mark wide \u00e9\u4e16\U0001f600"]
    assert events[8:11] == ["pop"] * 3
    assert events[11:18] == ["start start", "start wide start", "start attributes", 2, "end", "end", "end"]
    assert sorted(events[18:20]) == ["push my domain: registered", "push wide domain: crossing"]
    assert events[20:] == [4, "pop my domain:", 8, "pop wide domain:", "start wide domain: wide r.",
                           "mark my domain: registered", "end"]
    found = info_of(tmp_path / "o.vtr")[0]
    assert (found["ranges"], found["marks"], found["info"]["nvtx"]) == (9, 4, "on")
    assert sorted(found["range_domains"]) == ["my domain", "wide domain"]


def test_ids_and_categories(programs, tmp_path):
    traced(programs, tmp_path, "all")
    events = events_of(tmp_path / "o.vtr")
    started = [e["range"] for e in events if e["kind"] == "range_start"]
    ended = [e["range"] for e in events if e["kind"] == "range_end"]
    assert len(set(started)) == 4 and set(started) == set(ended) and ended[:3] != started[:3]
    assert {e["category"] for e in events if e.get("name") == "attributes" and "category" in e} == {7}
    assert {e["category"] for e in events if e.get("name") == "registered"} == {3}


def test_what_is_open_when_recording_begins(programs, tmp_path):
    _, events = traced(programs, tmp_path, "before")
    assert events == ["start still open", "push outer", "push early: in a domain", "push inner", 1, "pop", "pop early:",
                      2, "pop", "end", 4]


def test_a_program_without_memory_has_no_trace(programs, tmp_path):
    run(programs / "program", "nothing", env=traced_environment(tmp_path / "o.vtr"))
    assert not (tmp_path / "o.vtr").exists()


def test_ranges_in_signal_handlers(programs, tmp_path):
    _, events = traced(programs, tmp_path, "handlers")
    assert events[-2:] == ["push last", 2]
    # What begins in a handler ends in it, whatever it came in the middle of.
    depth, inside = 0, []
    for event in events:
        depth += event.startswith("push") if isinstance(event, str) else 0
        depth -= event == "pop"
        inside.append(depth)
    assert min(inside) >= 0 and inside[-1] == 1


def test_threads_have_their_own_ranges_and_names(programs, tmp_path):
    traced(programs, tmp_path, "threads")
    events_by_thread = {}
    for event in events_of(tmp_path / "o.vtr"):
        events_by_thread.setdefault((event["tid"], event["thread"]), []).append(text_of(event))
    assert len(events_by_thread) == 8
    for (_, name), events in events_by_thread.items():
        number = int(name.removeprefix("thread "))
        assert events == [f"push thread {number}", *["push turn", number + 1, "driver_free", "pop"] * 100, "pop"]


def test_a_fork_child_is_in_its_parents_ranges(programs, tmp_path):
    run(programs / "program", "fork", env=traced_environment(tmp_path / "o.vtr"))
    by_process = {}
    for event in events_of(tmp_path / "o.vtr"):
        by_process.setdefault(event["pid"], []).append(text_of(event))
    assert sorted(by_process.values(), key=len) == [["push of the parent", 2],
                                                    ["push of the parent", "push of the child", 1]]


def test_more_names_than_are_kept(programs, tmp_path):
    _, events = traced(programs, tmp_path, "many")
    assert events[1:20001:2] == [f"push step {i}" for i in range(10000)]
    assert events[20001:20201] == ["push deep"] * 200
    assert events[-3:] == ["push step 9999", 2, "pop"]
    assert info_of(tmp_path / "o.vtr")[0]["complete"]


def test_what_cannot_be_right_harms_nobody(programs, tmp_path):
    output, events = traced(programs, tmp_path, "wrong")
    assert output == "fine\n" and [e for e in events if not isinstance(e, str)] == [1, 1]


def test_every_copy_of_nvtx_is_heard(programs, tmp_path):
    _, events = traced(programs, tmp_path, "library", programs / "library.so")
    assert events == [0.5, "push around", "push in the library", "mark library mark", "pop", "pop"]


def tools_extension():
    """A libnvToolsExt (NVTX 2) of some environment beside the tests' own: PyTorch 2.6 brings one."""
    places = pathlib.Path(sys.prefix).parent.glob("env-*/lib/python3*/site-packages/nvidia/nvtx/lib/libnvToolsExt.so.1")
    return next(places, None)


@pytest.mark.skipif(not tools_extension(), reason="no libnvToolsExt here")
def test_version_2(programs, tmp_path):
    output, events = traced(programs, tmp_path, "v2", tools_extension())
    assert output.split() == f"push {NONE} push {NONE} pop {NONE} {NONE}".split()
    assert events == ["push v2 early", 0.5, "push v2 attributes", 1, "mark v2 domain: v2 attributes", "pop", "pop"]


# ---- other tools ------------------------------------------------------------------------------------------


def told(programs, tmp_path, name, env, *arguments):
    """What the other tool was told, without addresses of the program's memory."""
    log = tmp_path / name
    output = run(programs / "program", *arguments, env=env | {"NVTX_TOOL_LOG": str(log)})
    return output, [line.split(": 0x")[0] for line in log.read_text().splitlines()]


@pytest.mark.parametrize("what", [["before"], ["threads"], ["all"]])
def test_another_tool_hears_the_same(programs, tmp_path, what):
    tool = {"NVTX_INJECTION64_PATH": programs / "tool.so"}
    plain = told(programs, tmp_path, "plain", plain_environment(**tool), *what)
    traced = told(programs, tmp_path, "traced", traced_environment(tmp_path / "o.vtr", **tool), *what)
    if what == ["threads"]:
        plain, traced = [(out, sorted(lines)) for out, lines in (plain, traced)]
    assert traced == plain
    assert info_of(tmp_path / "o.vtr")[0]["info"]["nvtx"] == f"chained to {programs / 'tool.so'}"


def test_we_hear_the_same_with_another_tool(programs, tmp_path):
    (tmp_path / "alone").mkdir()
    _, alone = traced(programs, tmp_path / "alone", "all")
    _, both = traced(programs, tmp_path, "all", NVTX_INJECTION64_PATH=programs / "tool.so")
    # This tool has no handles for wide texts, and nobody else may make up some.
    assert both == [e.replace("wide domain: wide r.", "").replace("wide domain: ", "").replace("wide domain:", "").strip()
                    if isinstance(e, str) else e for e in alone]


def test_another_tool_that_cannot_be_loaded(programs, tmp_path):
    _, events = traced(programs, tmp_path, "before", NVTX_INJECTION64_PATH=tmp_path / "missing.so")
    assert events[1] == "push outer"
    assert info_of(tmp_path / "o.vtr")[0]["info"]["nvtx"] == f"on, but '{tmp_path / 'missing.so'}' cannot be loaded"


@pytest.mark.parametrize("traced, chained", [(False, False), (False, True), (True, False), (True, True)])
def test_programs_may_ask_whether_anybody_listens(programs, tmp_path, traced, chained):
    """Python's nvtx package asks, and says nothing if not."""
    tool = {"NVTX_INJECTION64_PATH": programs / "tool.so"} if chained else {}
    env = traced_environment(tmp_path / "o.vtr", **tool) if traced else plain_environment(**tool)
    assert int(run(programs / "program", "enabled", env=env)) == (traced or chained)


@pytest.mark.parametrize("chained", [False, True])
def test_a_program_that_is_not_traced_but_inherits_the_variable(programs, tmp_path, chained):
    """LD_PRELOAD is taken away: NVTX alone loads the recorder, which must do nothing but let the other tool in."""
    tool = {"NVTX_INJECTION64_PATH": programs / "tool.so"} if chained else {}
    script = "import os, sys; del os.environ['LD_PRELOAD']; os.execv(sys.argv[1], sys.argv[1:])"
    env = traced_environment(tmp_path / "o.vtr", NVTX_TOOL_LOG=tmp_path / "log", **tool)
    for what in ("all", "enabled"):
        output = run(sys.executable, "-c", script, programs / "program", what, env=env)
        assert output == run(programs / "program", what, env=plain_environment(**tool))
    assert not (tmp_path / "o.vtr").exists()
    assert (tmp_path / "log").exists() == chained


def test_a_traced_child_hears_and_chains_too(programs, tmp_path):
    env = traced_environment(tmp_path / "o.vtr", NVTX_INJECTION64_PATH=programs / "tool.so",
                             NVTX_TOOL_LOG=tmp_path / "log")
    run(programs / "program", "exec", programs / "program", "before", env=env)
    assert "push outer" in (tmp_path / "log").read_text()
    assert [text_of(e) for e in events_of(tmp_path / "o.vtr")][1] == "push outer"

# SPDX-License-Identifier: MIT
"""What of the user is in a recording, who can read it, and what is left of that in an anonymous copy."""

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from harness import TREE, python, trace_files

sys.path.append(str(TREE / "tests" / "spec"))

import vtf  # noqa: E402
import xxhash  # noqa: E402
from remake import Apart  # noqa: E402

JOB = textwrap.dedent('''
    import os, signal, sys, threading
    import torch
    from torch.cuda import nvtx

    class MysteryFn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
        @staticmethod
        def backward(ctx, grad):
            return torch.empty_like(grad).copy_(grad)

    kept = []

    def mystery_step(model, x):
        with nvtx.range("mystery range"):
            loss = MysteryFn.apply(model(x)).sum()
            loss.backward()
        kept.append(loss)

    def mystery_thread():
        open("/proc/thread-self/comm", "w").write("mysterythread")
        kept.append(torch.empty(5 << 20, device="cuda"))

    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8)).cuda()
    for i in range(3):
        mystery_step(model, torch.ones(256, 512, device="cuda"))
    worker = threading.Thread(target=mystery_thread)
    worker.start()
    worker.join()
    if "kill" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    if "wait" in sys.argv:
        print("waiting", flush=True)
        sys.stdin.read()
''')


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mysteryuser")
    (folder / "mystery_train.py").write_text(JOB)
    return folder


# Fields of a definition in front of its end: v a varint, s a string.
FIELDS = {1: "vvvv", 2: "vvss", 3: "vvvss", 5: "vs", 6: "vsss", 7: "s", 8: "ss", 9: "vv", 10: "s", 16: "vs"}


def strings(trace, kind=None):
    """The strings of each definition of this kind, or of any; a definition that was replaced counts, too."""
    for (its_kind, _), versions in vtf.read(trace).definitions.payloads.items():
        for _, payload in versions if kind in (None, its_kind) else ():
            cursor = vtf.Cursor(payload)
            read = {"s": cursor.bytes, "v": cursor.varint}
            yield [read[field]() for field in FIELDS.get(its_kind, "")]


def all_strings(trace):
    header = vtf.Header(trace.read_bytes())
    found = {field for fields in strings(trace) for field in fields if isinstance(field, bytes)}
    in_header = header.host, header.job, header.ring_path, header.recorder, header.commit
    return (found | {text.encode() for text in in_header}) - {b""}


def all_bytes(recording):
    """Every byte of a recording, its files' names included, nothing compressed."""
    out = b""
    for path in sorted(path for path in recording.rglob("*") if path.is_file()):
        data = path.read_bytes()
        out += path.name.encode() + b"\0" + data
        if path.suffix in (".vtr", ".names") and data:
            out += b"".join(frame.payload() for frame in Apart(data).frames)
    return out


def secrets(recording):
    """Every name in the recording that is the user's, or the machine's."""
    (trace,) = trace_files(recording)
    host = trace.name.rsplit(".", 3)[0]
    return [b"mystery", b"MysteryFn", b"job-of-mine", os.fsencode(os.path.expanduser("~")) + b"/",
            f"{host}.".encode(), *(text for device in strings(trace, vtf.DEVICE) for text in device[2:] if text)]


@pytest.fixture(scope="module")
def private(vramtrace, folder):
    """A recording with names of every kind in it."""
    done = vramtrace.record(folder / "mystery.vtr", [sys.executable, folder / "mystery_train.py", "mystery argument"],
                            options=["--record-argv"], env={"VRAMTRACE_JOB": "job-of-mine", "VRAMTRACE_MYSTERY": "1",
                                                            "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"})
    assert done.status == 0, done.stderr
    return done.path


@pytest.fixture(scope="module")
def killed(vramtrace, folder):
    """A recording whose process was killed, so that its last part is still in its ring file."""
    path = folder / "killed.vtr"
    env = vramtrace.preload_environment(vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", VRAMTRACE_OUTPUT=path,
                                        VRAMTRACE_RINGS="folder")
    done = subprocess.run([sys.executable, folder / "mystery_train.py", "kill"], env=env, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert [ring for ring in path.glob("*.ring")]
    return path


@pytest.fixture(scope="module")
def copy(vramtrace, private):
    out = private.parent / "copy.vtr"
    done = vramtrace.call("anonymize", private, out)
    assert (done.returncode, done.stderr) == (0, "")
    return out


def sources(recording):
    """What the trace says of files of source, by file: bytes and hash."""
    (trace,) = trace_files(recording)
    definitions = vtf.read(trace).definitions
    found = {}
    for code in definitions.numbers(vtf.SOURCE):
        its_code, source = definitions.get(vtf.CODE, code), definitions.get(vtf.SOURCE, code)
        its_code.varint(), its_code.varint(), its_code.string()
        found[its_code.string()] = source.varint(), source.varint()
    return found


def test_copy_tells_no_content_of_sources(private, copy, folder):
    """Who has a file could tell by its hash that it ran: a copy has none."""
    script = folder / "mystery_train.py"
    text = script.read_bytes()
    assert sources(private)[str(script)] == (len(text), xxhash.xxh64_intdigest(text))
    assert sources(copy) == {}


# ---- info --strings ----------------------------------------------------------------------------


def listed(vramtrace, path):
    return {row["text"].encode(errors="surrogateescape") for row in vramtrace.json("info", "--strings", path)["strings"]}


@pytest.mark.parametrize("name", ["private", "killed"])
def test_every_string_is_listed(vramtrace, request, name):
    path = request.getfixturevalue(name)
    (trace,) = trace_files(path)
    found = set().union(*(all_strings(file) for file in [trace, *path.glob("*.names")] if file.stat().st_size))
    found |= {file.name.encode() for file in path.iterdir()}
    found.add((path / "job").read_bytes().strip())
    assert listed(vramtrace, path) == found
    for word in (b"mystery_step", b"mystery range", b"mysterythread", b"MysteryFnBackward", b"mystery_train.py"):
        assert word in found or any(text.endswith(word) for text in found), word


def test_strings_as_text(vramtrace, private):
    done = vramtrace.call("info", "--strings", private)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert any(line.split() == ["Python", "function", "mystery_step"] for line in lines)
    assert any(line.startswith("host ") for line in lines) and any(line.startswith("mapped file ") for line in lines)


# ---- anonymize ---------------------------------------------------------------------------------


def same_but_names(a, b, names, at=""):
    """Two documents are equal but for strings, and one string always became the same other."""
    assert type(a) is type(b), at
    if isinstance(a, dict):
        assert list(a) == list(b), at
        for key in a:
            same_but_names(a[key], b[key], names, f"{at}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), at
        for one, other in zip(a, b):
            same_but_names(one, other, names, f"{at}[]")
    elif isinstance(a, str):
        assert names.setdefault((at, a), b) == b, at
    else:
        assert a == b, at


NATIVE = ("function", "file", "line", "framework")  # of native frames: looked up in the files that the trace names


def without_symbols(document):
    if isinstance(document, list):
        return [without_symbols(part) for part in document]
    if not isinstance(document, dict):
        return document
    native = document.get("module") is not None
    return {key: None if native and key in NATIVE else without_symbols(part) for key, part in document.items()}


def check_same(vramtrace, original, copy):
    names = {}
    for command in (["report"], ["peak"], ["peak", "--by", "range"], ["leaks"], ["timeline"]):
        one, other = (without_symbols(vramtrace.json(*command, path)) for path in (original, copy))
        same_but_names(one, other, names)
    replaced = {(at, new) for (at, _), new in names.items()}
    assert len(replaced) == len(names), "two names became one"
    return names


def events(vramtrace, path):
    done = vramtrace.call("dump", "--json", path)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_figures_and_groups_stay(vramtrace, private, copy):
    names = check_same(vramtrace, private, copy)
    assert any(old.endswith("mystery_train.py") for _, old in names)
    one, other = events(vramtrace, private), events(vramtrace, copy)
    called, threads = ("name", "domain", "thread"), {}
    for a, b in zip(one, other, strict=True):
        assert {k: v for k, v in a.items() if k not in called} == {k: v for k, v in b.items() if k not in called}
        assert threads.setdefault(a["thread"], b["thread"]) == b["thread"]
    assert vramtrace.json("verify", copy)["verdict"] == "whole"


def test_no_name_of_the_user_is_left(private, copy):
    before, after = all_bytes(private), all_bytes(copy)
    for secret in secrets(private):
        assert secret in before, secret
        assert secret not in after, secret


def test_names_that_analysis_needs_stay(vramtrace, copy):
    texts = listed(vramtrace, copy)
    for ending in (b"/site-packages/torch/nn/modules/linear.py", b"/libtorch_cuda.so", b"/libnccl.so.2", b"/libc.so.6"):
        assert any(text.startswith(b"/path-") and text.endswith(ending) for text in texts), ending
    assert {b"cudaMalloc", b"AddmmBackward0", b"Linear.forward", b"<module>", b"max_split_size_mb:64"} <= texts
    assert {b"job-1", b"host-1", b"uuid-1", b"pci-1", b"arguments-1", b"note-1"} <= texts
    assert any(text.startswith(b"thread-") for text in texts) and any(text.startswith(b"range-") for text in texts)


def test_who_can_read_it(vramtrace, private, tmp_path):
    old = os.umask(0)
    try:
        assert vramtrace.call("anonymize", private, tmp_path / "out.vtr").returncode == 0
        (trace,) = trace_files(private)
        assert vramtrace.call("anonymize", trace, tmp_path / "one.vtr").returncode == 0
    finally:
        os.umask(old)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes.pop(tmp_path / "out.vtr") == 0o700
    assert set(modes.values()) == {0o600} and len([path for path in modes if path.suffix != ".names"]) == 3
    check_same(vramtrace, trace, tmp_path / "one.vtr")


@pytest.mark.parametrize("obstacle", ["folder", "file", "dangling", "to_folder", "to_file"])
def test_nothing_is_overwritten(vramtrace, private, tmp_path, obstacle):
    other, out = tmp_path / "other", tmp_path / "out.vtr"
    (tmp_path / "precious").write_text("precious")
    other.mkdir()
    make = {"folder": out.mkdir, "file": lambda: out.write_text("precious"),
            "dangling": lambda: out.symlink_to(tmp_path / "nowhere"), "to_folder": lambda: out.symlink_to(other),
            "to_file": lambda: out.symlink_to(tmp_path / "precious")}
    make[obstacle]()
    before = sorted(tmp_path.rglob("*"))
    (trace,) = trace_files(private)
    for original in (private, trace):
        done = vramtrace.call("anonymize", original, out)
        assert done.returncode == 2 and "out.vtr'" in done.stderr and "xists" in done.stderr
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "precious").read_text() == "precious"
    assert not list(other.iterdir())


def test_of_a_killed_process(vramtrace, killed, tmp_path):
    out = tmp_path / "out.vtr"
    done = vramtrace.call("anonymize", killed, out)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted({path.suffix for path in out.iterdir()} - {".names"}) == ["", ".vtr"]
    verified = vramtrace.json("verify", out)
    assert verified["verdict"] == "whole" and verified["traces"][0]["end"] == "killed"
    assert verified["traces"][0]["joined_events"] == 0
    assert vramtrace.json("verify", killed)["traces"][0]["joined_events"] > 0
    check_same(vramtrace, killed, out)
    assert b"mystery" not in all_bytes(out)
    one, other = events(vramtrace, killed), events(vramtrace, out)
    assert [(e["ordinal"], e["time_ns"], e["address"], e["size"], e["python_stack"]) for e in one] == \
        [(e["ordinal"], e["time_ns"], e["address"], e["size"], e["python_stack"]) for e in other]


def test_of_a_running_process(vramtrace, folder, tmp_path):
    env = vramtrace.preload_environment(vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so",
                                        VRAMTRACE_OUTPUT=tmp_path / "run.vtr")
    with subprocess.Popen([sys.executable, folder / "mystery_train.py", "wait"], env=env, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        done = vramtrace.call("anonymize", tmp_path / "run.vtr", tmp_path / "out.vtr")
        process.stdin.close()
    assert done.returncode == 1 and "still being recorded" in done.stderr
    assert vramtrace.json("verify", tmp_path / "out.vtr")["verdict"] == "whole"
    assert events(vramtrace, tmp_path / "out.vtr")


@pytest.mark.parametrize("damage", ["damaged", "cut"])
def test_of_a_damaged_trace(vramtrace, tmp_path, damage):
    bad = Path(__file__).resolve().parents[1] / "golden" / "v1" / f"{damage}.vtr"
    done = vramtrace.call("anonymize", bad, tmp_path / "out.vtr")
    assert done.returncode == 1 and "is not whole" in done.stderr and "what could be read" in done.stderr
    verdict = {"damaged": 2, "cut": 1}[damage]  # it must not pass for whole
    assert vramtrace.call("verify", tmp_path / "out.vtr").returncode == verdict
    documents = []
    for path in (bad, tmp_path / "out.vtr"):
        (device,) = json.loads(vramtrace.call("report", "--json", path).stdout)["devices"]
        documents.append({key: device[key] for key in ("tensor", "reserved", "driver", "exact")})
    if damage == "damaged":
        same_but_names(*documents, {})
    one, other = (json.loads(vramtrace.call("verify", "--json", path).stdout)["traces"][0]
                  for path in (bad, tmp_path / "out.vtr"))
    assert (one["events"], one["lost_events"]) == (other["events"], other["lost_events"])


def test_one_trace_of_two_cannot_be_read(vramtrace, private, tmp_path):
    (trace,) = trace_files(private)
    mixed = tmp_path / "mixed.vtr"
    mixed.mkdir()
    (mixed / trace.name).write_bytes(trace.read_bytes())
    (mixed / "z.1.1.vtr").write_text("no trace at all")
    done = vramtrace.call("anonymize", "--json", mixed, tmp_path / "out.vtr")
    assert done.returncode == 1 and "z.1.1.vtr'" in done.stderr
    told = json.loads(done.stdout)
    assert (told["schema"], told["traces"], told["not_whole"]) == ("vramtrace/anonymize/1", 1, 1)
    (mixed / trace.name).unlink()
    done = vramtrace.call("anonymize", mixed, tmp_path / "none.vtr")
    assert done.returncode == 2 and not (tmp_path / "none.vtr").exists()


def test_of_several_processes(vramtrace, folder, tmp_path):
    """One name is replaced by the same in all traces."""
    done = vramtrace.record(tmp_path / "job.vtr", [sys.executable, folder / "mystery_train.py"], gpu="2xh100",
                            options=["--ranks", "0,1"])
    assert done.status == 0, done.stderr
    assert vramtrace.call("anonymize", done.path, tmp_path / "out.vtr").returncode == 0
    check_same(vramtrace, done.path, tmp_path / "out.vtr")
    first, second = trace_files(tmp_path / "out.vtr")
    code = [{text for fields in strings(trace, vtf.CODE) for text in fields[2:]} for trace in (first, second)]
    own = [{text for text in texts if b"function-" in text or b"file-" in text} for texts in code]
    assert own[0] == own[1] and len(own[0]) >= 3
    assert b"mystery" not in all_bytes(tmp_path / "out.vtr")


def test_of_a_repeated_job(vramtrace, tmp_path):
    path, out = tmp_path / "job.vtr", tmp_path / "out.vtr"
    done = vramtrace.record(path, python("ending.py", "return"), options=["--repeat", "2"])
    assert done.status == 0
    assert vramtrace.call("anonymize", path, out).returncode == 0
    assert len(trace_files(out)) == 2 and (out / "g2").stat().st_mode & 0o777 == 0o700
    check_same(vramtrace, path, out)
    assert [(p.relative_to(out)).parent for p in trace_files(out)] == [(p.relative_to(path)).parent for p in trace_files(path)]


# ---- what is recorded --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["script", "code", "module"])
def test_neither_environment_nor_arguments(vramtrace, tmp_path, how):
    """However Python is told what to run, what follows is no name of a script."""
    ending = python("ending.py", "return")[1]
    (tmp_path / "sought.py").write_text(ending.read_text())
    program = {"script": [tmp_path / "sought.py"], "module": ["-Wignore", "-msought"],
               "code": ["-c" + "secretcode = 1; " + "import sys; sys.argv[1] = 'return'; import sought"]}[how]
    done = vramtrace.record(tmp_path / "job.vtr", [sys.executable, *program, "return" if how != "code" else "secretword",
                                                   "--token=secretword", "secretword"], cwd=tmp_path,
                            env={"TOKEN": "secretvalue", "secretname": "x", "VRAMTRACE_SECRET": "secretvalue",
                                 "PYTHONPATH": str(tmp_path)})
    assert done.status == 0, done.stderr
    held = all_bytes(done.path)
    assert b"ending.py" in held or b"sought" in held
    for word in (b"secretword", b"secretvalue", b"secretname", b"secretcode"):
        assert word not in held, word
    (process,) = vramtrace.json("info", done.path)["process_list"]
    assert "argv" not in process["info"]
    assert process["info"].get("script") == {"script": "sought.py", "module": "sought", "code": None}[how]


def test_arguments_when_asked(vramtrace, tmp_path):
    words = ["return", "it's", "a b", "", "--x=$HOME", "y" * 5000]
    done = vramtrace.record(tmp_path / "job.vtr", python("ending.py", *words), options=["--record-argv"])
    (process,) = vramtrace.json("info", done.path)["process_list"]
    again = subprocess.run(["sh", "-c", f"printf '%s\\n' {process['info']['argv']}"], capture_output=True, text=True)
    assert again.stdout.split("\n")[:-1] == [str(word) for word in python("ending.py", *words)]


@pytest.mark.parametrize("at", ["job.vtr", "job.vtr/g2"])
def test_a_link_at_the_name_of_its_folder(vramtrace, tmp_path, at):
    """Nothing is written where it leads, with `run`, which says so, and without."""
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "job.vtr"
    elsewhere.mkdir()
    if at != "job.vtr":
        out.mkdir()
        (out / "job").write_text("another\n")
    (tmp_path / at).symlink_to(elsewhere)
    env = vramtrace.preload_environment(vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", VRAMTRACE_OUTPUT=out,
                                        VRAMTRACE_JOB="one")
    done = subprocess.run([str(word) for word in python("ending.py", "return")], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ten tensors\n", "")
    assert not [*elsewhere.iterdir()]
    if at == "job.vtr":
        done = vramtrace.call("run", "--simulate", "h100", "-o", out, "--", *python("ending.py", "return"))
        assert done.returncode == 125 and "is a link" in done.stderr
        assert not [*elsewhere.iterdir()]


def test_links_at_the_names_of_its_files(vramtrace, compile_c, tmp_path):
    """Somebody who could foresee the names of a trace, its ring file and the job's file plants links there."""
    source = tmp_path / "clock.c"
    source.write_text('''
        #include <time.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int clock_gettime(clockid_t clock, struct timespec *t)
        {
                if (clock != CLOCK_REALTIME)
                        return syscall(SYS_clock_gettime, clock, t);
                *t = (struct timespec){ 1700000000, 7 };
                return 0;
        }
    ''')
    clock = compile_c(source, "-shared", "-fPIC")
    out, precious = tmp_path / "job.vtr", tmp_path / "precious"
    out.mkdir()
    env = vramtrace.preload_environment(clock, vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", VRAMTRACE_OUTPUT=out,
                                        VRAMTRACE_JOB="one", TMPDIR=tmp_path)
    name = '"$1/$(hostname).$$.1700000000000000007'
    script = f'ln -s "$2" {name}.vtr.new"; ln -s "$2" {name}.vtr"; ln -s "$2" {name}.ring"; shift 2; exec "$@"'
    for planted in ("sh", "job"):
        precious.write_text("precious")
        if planted == "job":
            for path in out.iterdir():
                path.unlink()
            (out / "job").symlink_to(precious)
            script = 'shift 2; exec "$@"'
        done = subprocess.run(["sh", "-c", script, "sh", out, precious, *python("ending.py", "return")], env=env,
                              capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "ten tensors\n"), done.stderr
        assert precious.read_text() == "precious"
        links = [path for path in out.iterdir() if path.is_symlink()]
        assert len(links) == (3 if planted == "sh" else 1)
        assert not [path for path in out.glob("*.vtr*") if not path.is_symlink()]

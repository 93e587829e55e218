#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Walks through what only a real GPU can show, the most risky first, and says of each what was expected and what was seen.

usage: walk.py [--build DIR] [--simulate GPU] [--only NAME,...] [--output DIR] [--list]      (`make test-gpu`)

It needs a build of vramtrace, a C compiler for the steps of small programs, and PyTorch in the Python that runs it; no
root, no network. What is missing skips its step. A step that fails or takes too long stops nothing. With all limits
spent the walk takes less than half an hour. It prints a line for each check, and writes DIR/walk.json and DIR/walk.txt.
Exit status: 0 all as expected, 1 something differs, 2 usage or trouble.

--simulate GPU walks on the simulated GPU: the steps that mean something there. Times are then told, not judged.
"""

import argparse
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
PROGRAMS, DRIVER_PROGRAMS = HERE / "programs", HERE.parent / "driver" / "programs"
JOBS, EXAMPLES = HERE.parent / "e2e" / "jobs", TREE / "examples"
sys.path.insert(0, str(HERE.parent / "driver"))

import doors  # noqa: E402

SETTINGS = ("PYTORCH_", "VRAMTRACE_", "SIMGPU_", "CUBLAS_", "PYTEST_")
TOTAL_LIMIT_S = 1800  # what all limits add up to at most
LEARN_LIMIT_S = 45
END_MORE_S = 2  # how much longer than plain a recorded program may take to end


class Skip(Exception):
    """The step cannot be taken here; the reason."""


class TooLong(Exception):
    """The step's time is spent."""


class Done:
    """A program that has ended."""

    def __init__(self, process, stdout, stderr, seconds, recording):
        self.status, self.stdout, self.stderr = process.returncode, stdout, stderr
        self.seconds, self.recording = seconds, recording

    def outcome(self):
        """What is compared between a plain and a recorded run; addresses and times in messages are nobody's promise."""
        text = re.sub(r"0x[0-9a-f]+|\b\d+\.\d+ ?m?s\b|\[[WE]\d+ [^\]]*\]", "*", self.stderr)
        return {"status": self.status, "stdout": self.stdout, "stderr": text}


class Walk:
    """What the steps share: how programs run here, and the checks made so far."""

    def __init__(self, options):
        self.vramtrace, self.gpu = Path(options.build).absolute() / "vramtrace", options.simulate
        self.build, self.output = self.vramtrace.parent, Path(options.output).absolute()
        self.output.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="walk-"))
        self.checks, self.step, self.ends_at, self.nr_recordings = [], None, 0, 0

    # ---- programs ----

    def environment(self, more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        return kept | {"PYTHONDONTWRITEBYTECODE": "1"} | (more or {})

    def left_s(self):
        left = self.ends_at - time.monotonic()
        if left <= 0:
            raise TooLong(f"more than {self.step.limit_s} s")
        return left

    def call(self, command, env=None, recording=None):
        """Run a command in a session of its own, so that all of it can be ended when time is up."""
        begin = time.monotonic()
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace", cwd=self.folder,
                                   env=self.environment(env), start_new_session=True)
        try:
            stdout, stderr = process.communicate(timeout=self.left_s())
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise TooLong(f"'{Path(str(command[-1])).name}' and what was before it took more than {self.step.limit_s} s")
        return Done(process, stdout, stderr, time.monotonic() - begin, recording)

    def plain(self, *command, env=None):
        if self.gpu:
            command = (self.vramtrace, "run", "-q", "--no-record", "--simulate", self.gpu, "--", *command)
        return self.call(command, env)

    def recorded(self, *command, options=(), env=None):
        self.nr_recordings += 1
        recording = self.folder / f"{self.step.name}-{self.nr_recordings}.vtr"
        simulate = ["--simulate", self.gpu] if self.gpu else []
        return self.call((self.vramtrace, "run", "-q", "--force", *simulate, "-o", recording, *options, "--", *command), env,
                         recording)

    def compiled(self, source):
        """A C program, built by the machine's compiler."""
        compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
        if not compiler:
            raise Skip("there is no C compiler")
        result = self.folder / source.stem
        if not result.exists():
            done = self.call((compiler, "-O1", "-g", "-w", f"-I{TREE}", "-o", result, source, "-ldl", "-lpthread"))
            if done.status:
                raise Skip(f"'{source.name}' cannot be compiled: {done.stderr.strip().splitlines()[-1]}")
        return result

    def torch(self, *command):
        """The argument list of a script with PyTorch."""
        if "torch" not in self.facts:
            raise Skip("there is no PyTorch for CUDA in this Python")
        return (sys.executable, *command)

    def json(self, command, recording):
        done = self.call((self.vramtrace, command, "--json", recording))
        return json.loads(done.stdout)

    def real_only(self):
        if self.gpu:
            raise Skip("means nothing on a simulated GPU")

    # ---- checks ----

    def check(self, what, expected, seen, ok=None):
        self.add(what, str(expected), str(seen), "ok" if (expected == seen if ok is None else ok) else "DIFFERS")

    def tell(self, what, seen):
        self.add(what, "-", str(seen), "told")

    def judge_time(self, what, expected, seen, ok):
        """Times of a simulated GPU say nothing."""
        self.add(what, expected, seen, "told" if self.gpu else "ok" if ok else "DIFFERS")

    def add(self, what, expected, seen, verdict):
        self.checks.append({"step": self.step.name, "what": what, "expected": expected, "seen": seen, "verdict": verdict})
        print(f"step {self.step.number} {self.step.name}: {what}: expected {expected}, seen {seen}: {verdict}", flush=True)

    def same(self, what, plain, recorded, *, time_too=True):
        """A recorded program ends as the plain one did."""
        for name, value in plain.outcome().items():
            seen = recorded.outcome()[name]
            if value == seen:
                continue
            self.check(f"{what}: {name}", repr(value[-300:] if isinstance(value, str) else value),
                       repr(seen[-300:] if isinstance(seen, str) else seen), False)
            break
        else:
            self.check(f"{what}: status, stdout and stderr", "as without the recorder", "as without the recorder")
        if time_too:
            self.judge_time(f"{what}: time", f"at most {END_MORE_S} s more than {plain.seconds:.1f} s",
                            f"{recorded.seconds:.1f} s", recorded.seconds <= plain.seconds + END_MORE_S)

    def whole(self, what, done):
        """The report of a recording that lost nothing; None if there is none."""
        if not done.recording.exists():
            self.check(f"{what}: recording", "there", f"none; {done.stderr[-200:]!r}")
            return None
        report = self.json("report", done.recording)
        self.check(f"{what}: events lost", 0, report["recording"]["lost_events"])
        return report

    def ledger(self, what, done):
        """The recording says what PyTorch's allocator counted, to the byte."""
        report = self.whole(what, done)
        try:
            counted = json.loads(done.stdout.splitlines()[-1])
        except (ValueError, IndexError):
            self.check(f"{what}: the job's last line", "what PyTorch counted", repr((done.stdout + done.stderr)[-200:]), False)
            return
        device = max(report["devices"], key=lambda device: device["tensor"]["peak_bytes"], default=None) if report else None
        if device:
            seen = device["tensor"]["peak_bytes"], device["reserved"]["peak_bytes"]
            self.check(f"{what}: peaks allocated, reserved",
                       (counted["allocated_bytes.all.peak"], counted["reserved_bytes.all.peak"]), seen)


# ---- the steps, the most risky first ----------------------------------------------------------------------------------

STEPS = []


class Step:
    def __init__(self, name, limit_s, what, function):
        self.number, self.name, self.limit_s, self.what, self.function = len(STEPS) + 1, name, limit_s, what, function


def step(name, limit_s, what):
    def add(function):
        STEPS.append(Step(name, limit_s, what, function))
        return function

    return add


@step("door", 40, "every driver entry point that is looked up comes as the recorder's wrapper of that very ABI")
def walk_door(w):
    program = w.compiled(DRIVER_PROGRAMS / "door.c")
    plain, recorded = w.plain(program), w.recorded(program)
    found = doors.compare(plain.stdout, recorded.stdout)
    w.check("exit status, plain and recorded", (0, 0), (plain.status, recorded.status))
    w.check("answers for rows of hooks.def that are the recorder's", found.nr_rows, found.nr_ours)
    w.check("questions with another status, or another pattern of addresses", 0, len(found.differences))
    for line in found.differences[:5]:
        w.tell("differs", line)
    w.tell("rows that this driver exports", len(found.symbols))


@step("held", 60, "what the runtime and NVIDIA's libraries hold of the driver are wrappers")
def walk_held(w):
    w.real_only()
    program = w.compiled(DRIVER_PROGRAMS / "holds.c")
    w.torch()
    folder = Path(w.facts["site"]) / "nvidia"
    calls = {"libcudart.so.1": ("cudaGetDeviceCount", "cudaMalloc", "cudaMallocHost", "cudaFree"),
             "libcublas.so.1": ("cublasCreate_v2",), "libcublasLt.so.1": ("cublasLtCreate",),
             "libcudnn.so.9": ("cudnnCreate",), "libnccl.so.2": ("ncclGetUniqueId", "ncclCommInitAll")}
    libraries = [path for path in sorted(folder.rglob("*.so*")) if any(path.name.startswith(name) for name in calls)]
    if not libraries:
        raise Skip(f"no libraries in '{folder}'")
    for library in libraries:
        made = next(value for name, value in calls.items() if library.name.startswith(name))
        plain, recorded = w.plain(program, library, *made), w.recorded(program, library, *made)
        owners = [line.split()[2] for line in recorded.stdout.splitlines() if line.startswith("held ")]
        given = sum(line.startswith("held ") for line in plain.stdout.splitlines())
        w.check(f"{library.name}: entry points held that are wrappers", given, owners.count("ours"))
        said = [[line for line in done.stdout.splitlines() if not line.startswith("held ")] for done in (plain, recorded)]
        w.check(f"{library.name}: what its calls return", said[0], said[1])


@step("cupti", 90, "CUPTI sees no memory call that the hooks do not, is not subscribed unasked, and is left again")
def walk_cupti(w):
    job = w.torch(EXAMPLES / "train_gpt.py", "--stats")
    asked, unasked = w.recorded(*job, options=("--cupti",)), w.recorded(*job)
    (process,) = w.json("info", asked.recording)["process_list"]
    said = process["info"]
    w.check("status of the job", 0, asked.status)
    w.check("CUPTI", "on", said.get("cupti", "-"), said.get("cupti", "").startswith("on"))
    w.check("calls that CUPTI saw and no hook (unhooked), and the other way round (untold)", ("0", "0"),
            (said.get("cupti.unhooked", "-"), said.get("cupti.untold", "-")))
    (process,) = w.json("info", unasked.recording)["process_list"]
    w.tell("CUPTI without --cupti in a program with PyTorch", process["info"].get("cupti", "not used"))


@step("owners", 60, "what NVIDIA's libraries take for themselves is told from what the program takes")
def walk_owners(w):
    done = w.recorded(*w.torch(PROGRAMS / "owners.py"))
    w.check("status of the job", 0, done.status)
    report = w.whole("libraries", done)
    for device in report["devices"][:1] if report else ():
        owners = device["driver"]["by_owner_at_peak"]
        w.tell("by owner at the driver's peak", owners)
        w.check("of that the program's", 0, owners.get("program", 0))
        parts = device["residual"]["at_driver_peak"]
        w.check("parts of the residual that are negative", [], [name for name, value in parts.items() if (value or 0) < 0])


@step("latency", 60, "what a hook and its memory samples add to a driver's allocation, and to cuInit")
def walk_latency(w):
    program = w.compiled(PROGRAMS / "alloc_times.c")
    runs = {name: [] for name in ("plain", "recorded")}
    for _ in range(3):
        for name, run in (("plain", w.plain), ("recorded", w.recorded)):
            done = run(program)
            if done.status:
                w.check(f"{name} run", "exit status 0", f"{done.status}: {done.stdout[-200:]}{done.stderr[-200:]}")
                return
            runs[name].append(json.loads(done.stdout))
    # The first allocation has the first look at who else is on the GPU, by NVML: 11 ms on an H200.
    for key, more in (("p50_ns", 2_000), ("p999_ns", 1_000_000), ("max_ns", 15_000_000), ("init_ns", 1_000_000_000)):
        plain, recorded = (min(run[key] for run in runs[name]) for name in ("plain", "recorded"))
        w.judge_time(key, f"at most {more} ns more than {plain} ns", f"{recorded} ns", recorded <= plain + more)
    w.tell("slowest of the allocations recorded", " ".join(str(run["slowest"]) for run in runs["recorded"]))


@step("nvml", 30, "NVML is initialised as often as the program has done it")
def walk_nvml(w):
    program = w.compiled(DRIVER_PROGRAMS / "nvml_asks.c")
    w.same("answers before and after cuInit and after NVML's end", w.plain(program), w.recorded(program))


ENDS = ("return", "exit 7", "raise", "_exit", "abort", "terminate", "kill", "thread")


@step("endings", 140, "a program that has used the GPU ends as without the recorder, and as quickly")
def walk_endings(w):
    for end in ENDS:
        command = w.torch(PROGRAMS / "ends.py", end)
        w.same(end, w.plain(*command), w.recorded(*command))


@step("capture", 90, "stream captures are not disturbed, and what they hold is recorded")
def walk_capture(w):
    command = w.torch(PROGRAMS / "captures.py")
    plain, recorded = w.plain(*command), w.recorded(*command)
    w.same("graphs, and another thread that allocates in a capture", plain, recorded, time_too=False)
    report = w.whole("graphs", recorded)
    if report:
        w.check("memory samples after the captures", "some", report["devices"][0]["residual"]["samples"],
                report["devices"][0]["residual"]["samples"] > 0)
    command = w.torch(PROGRAMS / "compiled.py")
    plain = w.call(command) if not w.gpu else None
    if not plain or plain.status:
        w.add("torch.compile, reduce-overhead", "-", "does not run here without the recorder", "skipped")
    else:
        recorded = w.recorded(*command)
        w.same("torch.compile, reduce-overhead", plain, recorded, time_too=False)
        w.whole("torch.compile, reduce-overhead", recorded)


@step("segments", 60, "expandable segments: virtual memory, also where it runs out")
def walk_segments(w):
    env = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    command = w.torch(PROGRAMS / "blocks.py")
    w.ledger("expandable_segments", w.recorded(*command, env=env))
    w.ledger("the usual segments", w.recorded(*command))


@step("pools", 60, "stream-ordered memory, and the memory of graphs")
def walk_pools(w):
    env = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
    command = w.torch(PROGRAMS / "pools.py")
    plain, recorded = w.plain(*command, env=env), w.recorded(*command, env=env)
    w.same("backend:cudaMallocAsync", plain, recorded, time_too=False)
    report = w.whole("backend:cudaMallocAsync", recorded)
    if report and report["devices"]:
        peak = report["devices"][0]["driver"]["peak_bytes"]
        w.check("driver's peak", "at least 512 MiB, at most 4 GiB", peak, 512 << 20 <= peak <= 4 << 30)


@step("contexts", 30, "contexts that are destroyed and reset take their memory with them")
def walk_contexts(w):
    program = w.compiled(PROGRAMS / "contexts.c")
    plain, recorded = w.plain(program), w.recorded(program)
    w.same("contexts", plain, recorded, time_too=False)
    report = w.whole("contexts", recorded)
    if report and report["devices"]:
        driver = report["devices"][0]["driver"]
        w.check("driver's peak, and what is live at the end", (64 << 20, 0), (driver["peak_bytes"], driver["live_at_end_bytes"]))


@step("ipc", 60, "memory that another process has opened is counted once")
def walk_ipc(w):
    command = w.torch(PROGRAMS / "share.py")
    plain, recorded = w.plain(*command), w.recorded(*command)
    if plain.status:
        raise Skip(f"the program fails without the recorder, too: {plain.stderr.strip().splitlines()[-1:]}")
    w.same("a tensor handed to another process", plain, recorded)
    report = w.whole("shared", recorded)
    if report:
        w.check("tensors' peaks of both processes", [64 << 20],
                [d["tensor"]["peak_bytes"] for d in report["devices"] if d["tensor"]["peak_bytes"] >= 32 << 20])


@step("ledger", 150, "what the recording says is what PyTorch's allocator counted, to the byte")
def walk_ledger(w):
    for job in ("mlp.py", "gpt.py", "train_gpt.py --stats", "threads.py", "data_loader.py", "llama7b.py", "resnet50.py"):
        name, *arguments = job.split()
        path = EXAMPLES / name if (EXAMPLES / name).exists() else JOBS / name
        done = w.recorded(*w.torch(path, *arguments))
        if "ModuleNotFoundError" in done.stderr:
            w.add(name, "-", done.stderr.strip().splitlines()[-1], "skipped")
        else:
            w.ledger(name, done)


@step("marked", 300, "the tests marked `gpu`: calibrate, and the same scripts on the simulated GPU beside the real one")
def walk_marked(w):
    w.real_only()
    if w.call((sys.executable, "-c", "import pytest")).status:
        raise Skip("there is no pytest in this Python")
    env = {"VRAMTRACE_BUILD": str(w.build)}
    done = w.call((sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", TREE / "tests" / "e2e"), env)
    w.check("pytest -m gpu", "exit status 0", f"exit status {done.status}", done.status == 0)
    for line in done.stdout.splitlines():
        if re.match(r"FAILED|ERROR|\d+ (passed|failed)|\S+\.py.*simulated", line):
            w.tell("pytest", line)


@step("overhead", 160, "a training step takes at most 1 % longer")
def walk_overhead(w):
    modes = {
        "plain": lambda job: w.plain(*job),
        "recorded": lambda job: w.recorded(*job),
        "recorded without samples": lambda job: w.recorded(*job, env={"VRAMTRACE_SAMPLE_MIB": "0"}),
        "torch's recorder": lambda job: w.plain(*job, "torch"),
    }
    medians, longest = {name: [] for name in modes}, {name: [] for name in modes}
    for _ in range(1 if w.gpu else 2):
        for name, run in modes.items():
            done = run(w.torch(PROGRAMS / "steps.py"))
            if done.status:
                w.check(name, "exit status 0", f"{done.status}: {done.stderr[-200:]}")
                return
            times = json.loads(done.stdout.splitlines()[-1])["step_ns"]
            medians[name].append(statistics.median(times))
            longest[name].append(max(times))
    base = min(medians["plain"])
    w.tell("plain step", f"{base / 1e6:.3f} ms")
    for name in list(modes)[1:]:
        ratio = min(medians[name]) / base
        limit = 1.01 if name != "torch's recorder" else float("inf")
        w.judge_time(f"step {name}", "at most 1.0100 of plain" if limit < 2 else "-", f"{ratio:.4f} of plain", ratio <= limit)
        more = (min(longest[name]) - min(longest["plain"])) / 1e6
        w.judge_time(f"longest step {name}", "at most 5 ms more than plain", f"{more:+.2f} ms", more <= 5 or limit > 2)


def count_ioctls(w, command):
    """What the driver is asked of the kernel, all threads together; None where strace cannot tell."""
    done = w.call(("strace", "-f", "-c", "-e", "trace=ioctl", "-o", w.folder / "strace", *command))
    if not (w.folder / "strace").exists():
        return None
    found = re.search(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) .*ioctl$", (w.folder / "strace").read_text(), re.M)
    return int(found[1]) if found and not done.status else None


@step("ioctls", 60, "recording asks the kernel's driver for nothing in a training step")
def walk_ioctls(w):
    w.real_only()
    if not shutil.which("strace"):
        raise Skip("strace is not installed")
    job = w.torch(PROGRAMS / "steps.py")
    recorded = (w.vramtrace, "run", "-q", "--force", "-o", w.folder / "strace.vtr", "--", *job)
    plain, with_recorder = count_ioctls(w, job), count_ioctls(w, recorded)
    if plain is None or with_recorder is None:
        raise Skip("strace may not trace here")
    more = with_recorder - plain
    w.check("ioctls of 220 steps", f"at most 220 more than {plain}", with_recorder, more <= 220)


@step("faults", 120, "out of memory, a faulted context and a kernel without end: the same messages, status and end")
def walk_faults(w):
    oom = w.torch(PROGRAMS / "faults.py", "oom")
    plain, recorded = w.plain(*oom), w.recorded(*oom)
    w.check("out of memory: status", plain.status, recorded.status)
    message = [re.sub(r"Process \d+|\d+(\.\d+)? [GM]iB", "*", done.stderr).strip().splitlines()[-1:] for done in (plain, recorded)]
    w.check("out of memory: message", *message)
    report = w.whole("out of memory", recorded)
    if report and report["devices"]:
        w.check("out of memory: recorded", 1, report["devices"][0]["tensor"]["ooms"])
    for fault in ("assert", "endless exit", "endless terminate", "endless kill"):
        if w.gpu:
            w.add(fault, "-", "kernels of a simulated GPU do nothing", "skipped")
            continue
        command = w.torch(PROGRAMS / "faults.py", *fault.split())
        w.same(fault, w.plain(*command), w.recorded(*command))


@step("profilers", 90, "profilers beside the recorder see what they see without it")
def walk_profilers(w):
    w.real_only()
    command = w.torch(PROGRAMS / "profiled.py")
    w.same("torch.profiler: kernels counted", w.plain(*command), w.recorded(*command), time_too=False)
    for tool, arguments in (("nsys", ("profile", "--force-overwrite", "true", "-o", w.folder / "nsys")),
                            ("compute-sanitizer", ()), ("cuda-gdb", ("-batch", "-ex", "run", "--args"))):
        path = shutil.which(tool)
        if not path:
            w.add(tool, "-", "not installed", "skipped")
            continue
        job = (sys.executable, PROGRAMS / "ends.py", "return")
        w.check(f"vramtrace run -- {tool}", 0, w.recorded(path, *arguments, *job).status)
        w.check(f"{tool} vramtrace run", 0,
                w.call((path, *arguments, w.vramtrace, "run", "-q", "--force", "-o", w.folder / "t.vtr", "--", *job)).status)


@step("others", 90, "programs that reach the driver by other ways than PyTorch's")
def walk_others(w):
    w.real_only()
    scripts = {
        "jax": "import jax.numpy as n; x = n.ones((4096, 4096)); print(float((x @ x)[0, 0]))",
        "cupy": "import cupy as n; x = n.ones((4096, 4096)); print(float((x @ x)[0, 0]))",
        "bitsandbytes": "import torch, bitsandbytes as b; m = b.nn.Linear8bitLt(4096, 4096).cuda(); "
                        "print(m(torch.ones(4, 4096, device='cuda').half()).shape, torch.ones(1 << 25, device='cuda')[0])",
        "flash_attn": "import torch, flash_attn as f; q = torch.ones(8, 2048, 16, 64, device='cuda').half(); "
                      "print(f.flash_attn_func(q, q, q).shape)",
        "vllm": "import vllm; m = vllm.LLM('facebook/opt-125m', enforce_eager=True, load_format='dummy'); print('loaded')",
        "numba": "from numba import cuda; x = cuda.device_array((4096, 4096)); print(x.nbytes)",
    }
    for name, script in scripts.items():
        if w.call((sys.executable, "-c", f"import {name}")).status:
            w.add(name, "-", "not installed", "skipped")
            continue
        plain, recorded = w.plain(sys.executable, "-c", script), w.recorded(sys.executable, "-c", script)
        w.same(name, plain, recorded)
        report = w.whole(name, recorded)
        peak = max((d["driver"]["peak_bytes"] for d in report["devices"]), default=0) if report else 0
        w.check(f"{name}: driver's peak", "at least 64 MiB", peak, peak >= 64 << 20)


# ---- the walk ---------------------------------------------------------------------------------------------------------

FACTS = """
import json, sysconfig, torch
facts = {"torch": torch.__version__, "cuda": torch.version.cuda, "site": sysconfig.get_path("purelib")}
print(json.dumps(facts if torch.version.cuda else {}))
"""


def learn(w):
    """What the machine is, for the report."""
    w.step, w.ends_at = Step("machine", LEARN_LIMIT_S, "", None), time.monotonic() + LEARN_LIMIT_S
    torch = w.call((sys.executable, "-c", FACTS))
    w.facts = json.loads(torch.stdout) if not torch.status else {}
    gpu = w.call((w.vramtrace, "gpu", "--json"))
    w.facts |= {"python": platform.python_version(), "kernel": platform.release(), "simulated": w.gpu}
    w.facts["gpu"] = json.loads(gpu.stdout)
    return w.facts["gpu"]["found"]


def take(w, one):
    begin = time.monotonic()
    w.step, w.ends_at = one, begin + one.limit_s
    before = len(w.checks)
    print(f"step {one.number} {one.name}: {one.what}", flush=True)
    try:
        one.function(w)
    except Skip as why:
        w.add("step", "-", str(why), "skipped")
    except TooLong as why:
        w.check("step", f"ends within {one.limit_s} s", str(why), False)
    except Exception as error:  # whatever it is, the next step is taken
        w.check("step", "ends", f"{type(error).__name__}: {error}", False)
    differ = sum(check["verdict"] == "DIFFERS" for check in w.checks[before:])
    print(f"step {one.number} {one.name}: {f'{differ} DIFFER' if differ else 'done'} in {time.monotonic() - begin:.0f} s\n",
          flush=True)


def summary(w, seconds):
    verdicts = [check["verdict"] for check in w.checks]
    differ = [check for check in w.checks if check["verdict"] == "DIFFERS"]
    lines = [f"step {c['step']}: {c['what']}: expected {c['expected']}, seen {c['seen']}: {c['verdict']}" for c in w.checks]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in ("ok", "DIFFERS", "told", "skipped"))
    lines.append(f"walked in {seconds:.0f} s: {counts}")
    (w.output / "walk.txt").write_text("\n".join(lines) + "\n")
    result = {"schema": "vramtrace/walk/1", "machine": w.facts, "seconds": round(seconds), "checks": w.checks}
    (w.output / "walk.json").write_text(json.dumps(result, indent=1) + "\n")
    print(lines[-1])
    print(f"written to '{w.output / 'walk.json'}' and '{w.output / 'walk.txt'}'")
    return 1 if differ else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("VRAMTRACE_BUILD", TREE / "build"), help="where vramtrace was built")
    parser.add_argument("--simulate", metavar="GPU", help="walk on a simulated GPU")
    parser.add_argument("--only", metavar="NAMES", help="only these steps, by name, with commas")
    parser.add_argument("--output", metavar="DIR", default="walk", help="where the report goes (walk)")
    parser.add_argument("--list", action="store_true", help="list the steps")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [one.name for one in STEPS]
    unknown = set(names) - {one.name for one in STEPS}
    if unknown:
        parser.error(f"no step '{min(unknown)}'; --list lists them")
    assert LEARN_LIMIT_S + sum(one.limit_s for one in STEPS) <= TOTAL_LIMIT_S
    if options.list:
        for one in STEPS:
            print(f"{one.number:2} {one.name:10} {one.limit_s:4} s  {one.what}")
        return 0
    w = Walk(options)
    if not w.vramtrace.exists():
        parser.error(f"'{w.vramtrace}' is not there: run make")
    begin = time.monotonic()
    try:
        if not learn(w) and not w.gpu:
            print(f"walk: no GPU of NVIDIA's answers here: {w.facts['gpu']['reason']}; --simulate h100 walks on a simulated one")
            return 2
        for one in STEPS:
            if one.name in names:
                take(w, one)
        return summary(w, time.monotonic() - begin)
    finally:
        shutil.rmtree(w.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

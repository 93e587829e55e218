# SPDX-License-Identifier: MIT
"""Keep tests within limits of GPU memory, on a simulated GPU where there is no other (docs/pytest.md).

The recorder must be in the process before Python is. So pytest, started with --gpu-memory or --simulate, first becomes
`vramtrace run ... pytest` with the same arguments. Then a *span* is noted for each test, two readings of the clock that
recordings have, too, and `vramtrace peak --spans` says what was live in it. With xdist each worker judges the tests it
runs by its own process; the controller prints the table, from the spans that come with their reports.
"""

import gc
import itertools
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import warnings

import pytest

from vramtrace import program

DEFAULT_GPU = "h100"  # where there is none
REMOVE = "PYTEST_VRAMTRACE_REMOVE"  # a recording that nobody asked to keep
HOLDERS_SHOWN = 5
UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12} | {
    f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)
}

MARKERS = (
    "limit_gpu_memory(size): the test fails if its tensors take more GPU memory than that, such as '2 GiB'",
    "limit_gpu_leaks(size='0 B'): the test fails if it leaves more GPU memory than that in use",
)


def pytest_addoption(parser):
    group = parser.getgroup("vramtrace", "GPU memory of tests (vramtrace)")
    group.addoption("--gpu-memory", action="store_true", help="record GPU memory, keep limits, show the largest peaks")
    group.addoption("--simulate", metavar="GPU", help="the same on a simulated GPU: h100, 2xa100-80, my-gpu.toml")
    group.addoption(
        "--gpu-memory-rows", metavar="N", type=int, default=10, help="show the N largest peaks (default 10; 0: all)"
    )
    group.addoption("--gpu-memory-recording", metavar="REC", help="keep the recording, as a folder of this name")


def pytest_configure(config):
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    recording = current_recording()
    if recording and is_wanted(config.option):
        config.pluginmanager.register(Limits(config, recording), "vramtrace-limits")


def pytest_collection_modifyitems(config, items):
    nr_limited = 0
    for item in items:
        item.stash[LIMITS] = limits_of(item)
        nr_limited += item.stash[LIMITS] != (None, None)
    if nr_limited and not config.pluginmanager.hasplugin("vramtrace-limits"):
        warnings.warn(pytest.PytestWarning(f"{nr_limited} tests have limits of GPU memory; --gpu-memory checks them"))


# ---- becoming a recorded pytest ---------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    options = early_config.known_args_namespace
    if not is_wanted(options):
        return
    if not current_recording():
        become_recorded(early_config, options)
    elif options.simulate and not os.environ.get("VRAMTRACE_SIMULATE"):
        raise pytest.UsageError("--simulate: this pytest is recorded already; say 'vramtrace run --simulate' instead")


def is_wanted(options):
    return options.gpu_memory or bool(options.simulate)


def current_recording():
    """The folder that this process records into; None if it does not."""
    words = re.split("[ :]", os.environ.get("LD_PRELOAD", ""))
    if not any(word.endswith("/libinterpose.so") for word in words):
        return None
    return os.environ.get("VRAMTRACE_OUTPUT", "").replace("%%", "%") or None


def become_recorded(config, options):
    """Become `vramtrace run`, which starts this very command again."""
    command = list(getattr(sys, "orig_argv", ())) or [sys.executable, "-m", "pytest", *sys.argv[1:]]
    if list(config.invocation_params.args) != sys.argv[1:]:
        raise pytest.UsageError(
            "--gpu-memory: pytest was called by a program, which must be recorded as a whole: start it with "
            "'vramtrace run -- python PROGRAM', and '--simulate h100' if there is no GPU"
        )
    recording, how = options.gpu_memory_recording, []
    if not recording:
        how = ["--exec"]  # nobody stays to miss the recording when it is removed
        name = f"pytest-vramtrace-{os.getpid()}-{secrets.token_hex(4)}.vtr"
        recording = os.environ[REMOVE] = os.path.join(tempfile.gettempdir(), name)
    gpu = options.simulate or (None if has_gpu() else DEFAULT_GPU)
    run = [program(), "run", "-q", *how, "-o", recording.replace("%", "%%"), *(["--simulate", gpu] if gpu else [])]
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture:
        capture.stop_global_capturing()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program(), [*run, "--", sys.executable, *command[1:]])


def has_gpu():
    """Whether a real one answers; a device node alone says nothing."""
    return subprocess.run([program(), "gpu"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode == 0


# ---- what the recording says ------------------------------------------------------------------------------------------


class CannotTell(Exception):
    """The recording could not be read."""


def ask(*arguments, text=None):
    """What a command of vramtrace prints as JSON."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [program(), *map(str, arguments)]
    done = subprocess.run(command, input=text or "", capture_output=True, text=True, env=environment, check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {"error": done.stderr.strip() or f"vramtrace ended with {done.returncode}"}
    if "error" in answer:
        raise CannotTell(answer["error"])
    return answer


def measure(recording, spans):
    """For each span (pid, from, to), pid 0 being any: the rows of `peak --spans`, one for each process and GPU."""
    rows = [[] for _ in spans]
    if not spans or not os.path.isdir(recording):  # no process has used a GPU
        return rows
    lines = "".join(f"{pid} {begin} {end} {i}\n" for i, (pid, begin, end) in enumerate(spans))
    for row in ask("peak", "--json", "--spans", "-", recording, text=lines)["spans"]:
        rows[int(row["name"])].append(row)
    return rows


def taken(row):
    """How much more was live at most than before."""
    return row["peak_bytes"] - row["begin_bytes"]


def kept(row):
    """How much more was live after than before."""
    return row["end_bytes"] - row["begin_bytes"]


def holders(recording, moment, row):
    """Lines that say who held most of the row's GPU at a moment (of `peak --at`)."""
    for device in ask("peak", "--json", "-n", HOLDERS_SHOWN, "--at", moment, recording)["devices"]:
        if (device["pid"], device["device"]) == (row["pid"], row["device"]):
            return [f"{size_text(group['bytes']):>10}  {place_text(group)}" for group in device["groups"]]
    return []


def is_of_pytest(frame):
    return re.search("/(_pytest|pluggy)/", frame["file"]) is not None


def place_text(group):
    """The line that allocated it, and the one that called that; neither pytest's own nor what started pytest."""
    frames = [frame for frame in group["frames"] if frame["language"] == "python" and not frame["framework"] and frame["file"]]
    outward = itertools.dropwhile(is_of_pytest, frames)
    frames = list(itertools.takewhile(lambda frame: not is_of_pytest(frame), outward))
    if not frames:
        return (group["site"] or {}).get("function") or "an unknown place"
    return ", from ".join(f"{os.path.relpath(f['file'])}:{f['line']} in {f['function']}" for f in frames[:2])


def parse_size(text):
    """Bytes of "2 GiB" or "500 MB"; a plain number is not a size."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?i?B)\s*", str(text))
    unit = found and found[2].replace("kiB", "KiB").replace("KB", "kB")
    if not found or unit not in UNITS:
        raise pytest.UsageError(f"'{text}' is not a size: '2 GiB', '500 MiB'")
    return int(float(found[1]) * UNITS[unit])


def size_text(size):
    """As vramtrace prints it: three figures, binary units."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1000 or unit == "TiB":
            break
        size /= 1024
    return f"{size} B" if unit == "B" else f"{size:.{2 if abs(size) < 10 else 1 if abs(size) < 100 else 0}f} {unit}"


# ---- the tests --------------------------------------------------------------------------------------------------------


LIMITS = pytest.StashKey()


def excess_text(size, limit, most):
    return f"{size_text(size)} more than limit_gpu_{limit} allows ({size_text(most)})"


def limits_of(item):
    """How much a test may take, and leave behind, in bytes; None if there is no such limit."""
    return limit_of(item, "limit_gpu_memory"), limit_of(item, "limit_gpu_leaks", "0 B")


def limit_of(item, marker, default=None):
    mark = item.get_closest_marker(marker)
    if not mark:
        return None
    size = mark.args[0] if len(mark.args) == 1 else mark.kwargs.get("size", default)
    if size is None or len(mark.args) > 1 or set(mark.kwargs) - {"size"}:
        raise pytest.UsageError(f"{item.nodeid}: {marker} takes one size, such as '2 GiB'")
    return parse_size(size)


class Limits:
    """Notes the spans of recorded tests, judges them, and prints the table."""

    setup_ns = pytest.StashKey[int]()
    span = pytest.StashKey[tuple]()

    def __init__(self, config, recording):
        self.config, self.recording = config, recording
        self.tests = []  # (name, span)
        # A worker of xdist shares the recording with the others, and knows only its own process in it.
        self.pid = os.getpid() if hasattr(config, "workerinput") else 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        item.stash[self.setup_ns] = time.monotonic_ns()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        most, leaks = item.stash[LIMITS]
        begin_ns = time.monotonic_ns()
        try:
            result = yield
        finally:
            end_ns = time.monotonic_ns()
            item.stash[self.span] = (self.pid, item.stash[self.setup_ns], end_ns)
        try:
            if most is not None:
                self.judge_peak(item.stash[self.span], most)
            if leaks is not None:
                collect_garbage()
                self.judge_leaks((self.pid, begin_ns, time.monotonic_ns()), leaks)
        except CannotTell as error:
            pytest.fail(f"could not tell how much GPU memory the test took: {error}", pytrace=False)
        return result

    def judge_peak(self, span, most):
        row = self.worst(span, taken, most)
        if row:
            verdict = f"took {size_text(taken(row))} of GPU memory, {excess_text(taken(row) - most, 'memory', most)}"
            self.fail(verdict, f"at its peak, on GPU {row['device']}", row, f"{row['peak_time_ns']}ns")

    def judge_leaks(self, span, most):
        row = self.worst(span, kept, most)
        if row:
            verdict = f"left {size_text(kept(row))} of GPU memory behind, {excess_text(kept(row) - most, 'leaks', most)}"
            self.fail(verdict, f"live after it, on GPU {row['device']}", row, "end")

    def worst(self, span, amount, most):
        """Of the span's devices the one with most of it, where that is more than it may be."""
        row = max(measure(self.recording, [span])[0], key=amount, default=None)
        return row if row and amount(row) > most else None

    def fail(self, verdict, place, row, moment):
        before = [f"({size_text(row['begin_bytes'])} were live before the test)"] if row["begin_bytes"] else []
        lines = [f"the test {verdict}", f"{place}, allocated at:", *holders(self.recording, moment, row), *before]
        pytest.fail("\n".join(lines), pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if call.when == "call" and self.span in item.stash:
            report.gpu_memory_span = item.stash[self.span]  # comes with the report from a worker of xdist
        return report

    def pytest_runtest_logreport(self, report):
        if hasattr(report, "gpu_memory_span"):
            self.tests.append((report.nodeid, report.gpu_memory_span))

    def pytest_terminal_summary(self, terminalreporter):
        try:
            measured = measure(self.recording, [span for _, span in self.tests])
        except CannotTell as error:
            terminalreporter.write_line(f"vramtrace: no table of GPU memory: {error}")
            return
        peaks = [(max(map(taken, rows), default=0), name) for rows, (name, _) in zip(measured, self.tests)]
        peaks = sorted((peak for peak in peaks if peak[0]), key=lambda peak: (-peak[0], peak[1]))
        shown = peaks[: self.config.option.gpu_memory_rows or None]
        gpu = os.environ.get("VRAMTRACE_SIMULATE")
        terminalreporter.write_sep("=", f"GPU memory{f' (simulated {gpu})' if gpu else ''}")
        for peak, name in shown:
            terminalreporter.write_line(f"{size_text(peak):>10}  {name}")
        if len(peaks) > len(shown):
            terminalreporter.write_line(f"({len(peaks) - len(shown)} more tests: --gpu-memory-rows N)")
        if not peaks:
            terminalreporter.write_line("no test took any")

    def pytest_unconfigure(self):
        if not self.pid and REMOVE in os.environ:
            shutil.rmtree(os.environ.pop(REMOVE), ignore_errors=True)


def collect_garbage():
    """Free what nobody can reach, and the workspaces that PyTorch keeps for cuBLAS, which are no test's leak."""
    gc.collect()
    torch = sys.modules.get("torch")
    clear = torch and getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear and torch.cuda.is_initialized():
        clear()

# SPDX-License-Identifier: MIT
"""The built vramtrace as the tests use it: record a program, read what the commands print."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import schemas

TREE = Path(__file__).resolve().parents[2]
JOBS = TREE / "tests" / "e2e" / "jobs"
EXAMPLES = TREE / "examples"
LIMIT_S = 300  # no job takes a tenth of this: a hang fails its test instead of stopping the suite


@dataclass
class Recorded:
    """One run of a program, and where its recording is."""

    path: Path
    status: int
    stdout: str
    stderr: str

    @property
    def ledger(self):
        """The JSON line that a job prints last."""
        return json.loads(self.stdout.splitlines()[-1])


class Vramtrace:
    """The built command, and the libraries beside it."""

    def __init__(self, build):
        self.program = build / "vramtrace"
        self.interpose = build / "libinterpose.so"
        self.simgpu = build / "simgpu"

    def call(self, *arguments, **options):
        """Run the command; returns the CompletedProcess, whatever its status."""
        options = {"capture_output": True, "text": True, "timeout": LIMIT_S, "stdin": subprocess.DEVNULL} | options
        return subprocess.run([self.program, *map(str, arguments)], **options)

    def json(self, command, *arguments):
        """What `command --json` prints, which is as its schema says; it must have ended well."""
        done = self.call(command, "--json", *arguments)
        assert done.returncode == 0, f"vramtrace {command} ended with {done.returncode}: {done.stderr}"
        document = json.loads(done.stdout)
        schemas.check(document)
        return document

    def whole_report(self, recording):
        """What `report` says of a recording, which is complete and has lost no event."""
        report = self.json("report", recording)
        assert (report["recording"]["lost_events"], report["recording"]["complete"]) == (0, True)
        return report

    def events(self, recording):
        """The recording's events, one dictionary each, with whole Python stacks (one object per distinct stack)."""
        command = [self.program, "dump", "--json", "-v", recording]
        events, stacks = [], {}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            for line in process.stdout:
                event = json.loads(line)
                del event["native"]
                event["python"] = stacks.setdefault((event["pid"], event["python_stack"]), event["python"])
                events.append(event)
        assert process.returncode == 0, f"vramtrace dump ended with {process.returncode}"
        return events

    def run_argv(self, output, program, *, gpu="h100", options=()):
        return [self.program, "run", "-q", "--simulate", gpu, "-o", output, *options, "--", *program]

    def record(self, output, program, *, gpu="h100", options=(), env=None, cwd=None):
        """Record `program` (an argument list) on a simulated GPU."""
        done = subprocess.run(
            [str(word) for word in self.run_argv(output, program, gpu=gpu, options=options)],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            stdin=subprocess.DEVNULL,
            env=program_environment(env),
            cwd=cwd,
        )
        return Recorded(Path(output), done.returncode, done.stdout, done.stderr)

    def preload_environment(self, *libraries, **more):
        """What `run --simulate` would set, for programs started without it."""
        return program_environment(
            {
                "LD_PRELOAD": ":".join(map(str, libraries)),
                "LD_LIBRARY_PATH": ":".join(filter(None, (str(self.simgpu), os.environ.get("LD_LIBRARY_PATH")))),
                "TRITON_LIBCUDA_PATH": str(self.simgpu),
                "SIMGPU_PROFILE": "h100",
                "VRAMTRACE_SIMULATE": "h100",
                "VRAMTRACE_NAMES": "auto",
            }
            | {name: str(value) for name, value in more.items()}
        )


SETTINGS = (
    "PYTORCH_", "VRAMTRACE_", "SIMGPU_", "CUBLAS_", "SLURM_", "TORCHELASTIC_", "PYTEST_", "PYTHONUNBUFFERED",
)


def program_environment(more=None):
    """
    The tests' environment without settings of the allocator, the recorder or Python's buffers, and without bytecode.
    Names of tensors are not looked for, which takes a second for each job: the tests of names, of what they decide
    (categories, modules, why memory ran out), and those that hold a program's life against an untraced one's, look for them.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(SETTINGS)
    }
    return kept | {"PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "VRAMTRACE_NAMES": "off"} | (more or {})


WITH_NAMES = {"VRAMTRACE_NAMES": "auto"}


def python(script, *arguments):
    """The argument list that runs a job or example by its name."""
    path = EXAMPLES / script if (EXAMPLES / script).exists() else JOBS / script
    return [sys.executable, path, *arguments]


def adds_up(device):
    """Of a device in a report: the bytes in use at the driver's peak, to which the parts must add up exactly."""
    driver, residual = device["driver"], device["residual"]
    assert sum(driver["by_owner_at_peak"].values()) == driver["peak_bytes"]
    nccl = sum(row["bytes_at_peak"] for row in driver["nccl_communicators"])
    assert nccl == driver["by_owner_at_peak"].get("nccl", 0)
    parts = sum(part or 0 for part in residual["at_driver_peak"].values())
    assert driver["peak_bytes"] + parts == residual["device_at_driver_peak_bytes"]
    return residual["device_at_driver_peak_bytes"]


def trace_files(recording):
    """The processes' traces of a recording, all generations."""
    return sorted(path for path in Path(recording).rglob("*.vtr") if path.is_file())


def offset_in(message):
    """The byte offset that an error message names, or None."""
    found = re.search(r"(?:offset|byte) (\d+)", message)
    return int(found[1]) if found else None

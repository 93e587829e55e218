# SPDX-License-Identifier: MIT
"""NVIDIA's own driver libraries on a machine without a GPU: what is fetched, and programs run on them twice.

Without a kernel module cuInit finds no device, but the library is the real one: how it hands out its entry points, what
the real runtimes ask of it and hold, and how all that looks to a program, needs no GPU. `make test-driver` names the
folder into which drivers, wheels and environments are fetched; what cannot be had is skipped, with the reason.
"""

import fcntl
import hashlib
import os
import subprocess
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TREE = HERE.parents[1]
BUILD = Path(os.environ.get("VRAMTRACE_BUILD", TREE / "build")).absolute()
SETUP = TREE / "setup"
CACHE = os.environ.get("VRAMTRACE_DRIVER_CACHE")
LIMIT_S = 300

# The driver, and the suite of Debian that has it.
SUITES = {"535": "bookworm", "550": "trixie", "555": "experimental"}
LIBRARIES = "root/usr/lib/x86_64-linux-gnu/nvidia/current"

SETTINGS = ("VRAMTRACE_", "SIMGPU_", "PYTORCH_", "LD_", "CUDA_", "NVTX_")


def fetch(name, sources, *command):
    """The folder NAME-HASH of the cache, made by a command that gets it as its first argument; skips if that fails."""
    if not CACHE:
        pytest.skip("`make test-driver` runs it, and fetches what it needs")
    key = hashlib.sha256(" ".join([*map(str, command[1:]), *((SETUP / s).read_text() for s in sources)]).encode())
    folder = Path(CACHE) / f"{name}-{key.hexdigest()[:12]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            done = subprocess.run([command[0], folder, *command[1:]], capture_output=True, text=True)
            if done.returncode:
                pytest.skip((done.stderr.strip() or f"{command[0].name} failed").splitlines()[-1])
    return folder


@contextmanager
def device_nodes_as_before():
    """The real library, loaded by root, makes /dev/nvidiactl even where there is no GPU: nothing of it is left."""
    before = set(Path("/dev").glob("nvidia*"))
    try:
        yield
    finally:
        for node in set(Path("/dev").glob("nvidia*")) - before:
            if not node.is_dir():
                node.unlink()


class Runs:
    """A program on a driver, as it is and under `vramtrace run`, with the same environment."""

    def __init__(self, folder):
        self.folder, self.recording = folder, folder / "job.vtr"

    def run(self, driver, *command, recorded=False, options=(), env=None, keep_nodes=False):
        prefix = [BUILD / "vramtrace", "run", "-q", "--force", "-o", self.recording, *options, "--"] if recorded else []
        kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        with nullcontext() if keep_nodes else device_nodes_as_before():
            return subprocess.run(
                [str(word) for word in (*prefix, *command)],
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                env=kept | {"LD_LIBRARY_PATH": str(driver)} | (env or {}),
            )

    def both(self, driver, *command, **options):
        """(plain, recorded)"""
        return self.run(driver, *command, **options), self.run(driver, *command, recorded=True, **options)


def same_outcome(plain, recorded):
    """Exit status and stderr; how stdout compares is the test's own."""
    assert (plain.returncode, plain.stderr) == (recorded.returncode, recorded.stderr)

# SPDX-License-Identifier: MIT
"""Runs of jobs that several tests read, made once for all workers of a test run."""

import fcntl
import hashlib
import os
import pickle
from pathlib import Path


def shared(tmp_path_factory):
    """The folder that all workers of this test run have, or of several runs of one build, where the environment names it."""
    if "TESTS_SHARED_RUNS" in os.environ:
        folder = Path(os.environ["TESTS_SHARED_RUNS"])
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def once(folder, what, make):
    """
    The result of make(a folder of its own), which is made by whoever asks first for `what`, a sequence of texts or
    paths; who asks meanwhile waits for it. The result must not be changed, nor what lies in its folder.
    """
    own = folder / hashlib.sha256("\0".join(map(str, what)).encode()).hexdigest()[:16]
    result = own / "result"
    with open(own.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            own.mkdir(exist_ok=True)
            result.write_bytes(pickle.dumps(make(own)))
        return pickle.loads(result.read_bytes())

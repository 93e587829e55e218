# SPDX-License-Identifier: MIT
"""The Python interpreters that are installed here, for the tests that run under each of them."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path


def _pyenv_root():
    """pyenv's folder: as it is told, as its command lies, or in the home folder. It need not exist."""
    if os.environ.get("PYENV_ROOT"):
        return Path(os.environ["PYENV_ROOT"])
    command = shutil.which("pyenv")
    return Path(command).resolve().parents[1] if command else Path.home() / ".pyenv"


def _fetched():
    """The newest CPython 3.14 that setup/python314.sh has put into the cache, if any, as a list."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vramtrace"
    whole = sorted(cache.glob("python314-*/.complete"), key=os.path.getmtime)
    return [path.parent / "root/usr/bin/python3.14" for path in whole[-1:]]


def _version(path):
    """(major, minor) of an interpreter that runs, else None: pyenv's stand-ins on PATH only know how to fail."""
    try:
        said = subprocess.run([path, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError:
        return None
    numbers = re.match(r"Python (\d+)\.(\d+)\.", said.stdout)
    return (int(numbers[1]), int(numbers[2])) if numbers and said.returncode == 0 else None


def installed():
    """{path: (major, minor)}: this one, the system's, pyenv's and setup/python314.sh's, in that order, each once."""
    candidates = [Path(sys.executable), Path("/usr/bin/python3")]
    candidates += sorted(path for path in Path("/usr/bin").glob("python3.*") if re.fullmatch(r"\d+", path.name[8:]))
    candidates += sorted(_pyenv_root().glob("versions/*/bin/python")) + _fetched()
    found, seen = {}, set()
    for path in candidates:
        version = _version(path) if path.resolve() not in seen else None
        if version:
            seen.add(path.resolve())
            found[path] = version
    return found

# SPDX-License-Identifier: MIT
"""The Python package, installed by pip: what it holds, and that what it holds works alone."""

import base64
import csv
import hashlib
import json
import os
import re
import subprocess
import zipfile

import pytest

from harness import JOBS, TREE

LOADER = """\
import ctypes, os
names = "libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"
opened = [ctypes.CDLL(name) for name in names]
address = lambda library, name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value
inits = {address(library, "cuInit") for library in opened}
assert len(inits) == 1, inits
assert opened[0].cuInit(0) == 0 and opened[2].nvmlInit_v2() == 0
inodes = {line.split()[4] for line in open("/proc/self/maps") if line.rstrip().endswith("/libsimgpu.so")}
assert len(inodes) == 1, inodes
print("once")
"""


@pytest.fixture(scope="module")
def wheel(package, vramtrace):
    package.pip("wheel", TREE, "--config-settings", f"build={vramtrace.program.parent}", "--no-deps", "-w", package.folder)
    return zipfile.ZipFile(next(package.folder.glob("*.whl")))


def test_its_record_lists_every_file_with_its_hash(wheel):
    record = next(name for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))
    rows = {name: (digest, size) for name, digest, size in csv.reader(wheel.read(record).decode().splitlines())}
    assert set(rows) == set(wheel.namelist())
    for name in set(rows) - {record}:
        content = wheel.read(name)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert rows[name] == (f"sha256={digest}", str(len(content)))


def test_it_carries_the_licences_of_what_is_linked_in(wheel):
    info = next(name for name in wheel.namelist() if name.endswith("METADATA"))
    named = re.findall(r"^License-File: (.*)$", wheel.read(info).decode(), re.M)
    assert {"LICENSE", "GPL-3", "LGPL-3", "libdw-dev.txt", "libzstd-dev.txt", "libjson-c-dev.txt"} <= set(named)
    for name in named:
        assert len(wheel.read(f"{os.path.dirname(info)}/licenses/{name}")) > 500


def test_it_carries_what_agents_need(wheel):
    assert {"vramtrace/SKILL.md", "vramtrace/mcp_server.py"} <= set(wheel.namelist())
    metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()
    assert "\nProvides-Extra: mcp\n" in metadata and "\nRequires-Dist: mcp>=2; extra == 'mcp'\n" in metadata


def test_two_builds_are_the_same_bytes(wheel, package, vramtrace):
    again = package.folder / "again"
    package.pip("wheel", TREE, "--config-settings", f"build={vramtrace.program.parent}", "--no-deps", "-w", again)
    assert next(again.glob("*.whl")).read_bytes() == next(package.folder.glob("*.whl")).read_bytes()


def test_its_programs_need_the_c_library_alone(package):
    native = package.site / "vramtrace" / "native"
    for path in (native / "vramtrace", native / "libinterpose.so", native / "simgpu" / "libsimgpu.so"):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", subprocess.check_output(["readelf", "-dW", path], text=True))
        assert all(re.match(r"(libc|libm|libpthread|libdl|librt|ld-linux.*)\.so", name) for name in needed), needed


def test_python_m_vramtrace_is_the_command(package):
    version = package.vramtrace("--version").stdout
    assert version == package.call(package.python.parent / "vramtrace", "--version").stdout
    assert version.split()[1] == re.search(r'^version = "(.*)"', (TREE / "pyproject.toml").read_text(), re.M)[1]
    failing = package.vramtrace("run", "--simulate", "h100", "--", package.python, "-c", "import sys; sys.exit(7)")
    assert failing.returncode == 7
    assert package.vramtrace("mcp", "-h").stdout == package.call(package.python.parent / "vramtrace", "mcp", "--help").stdout


def test_it_records_pytorch(package, tmp_path):
    recording = tmp_path / "job.vtr"
    arguments = ["run", "-q", "--simulate", "h100", "-o", recording, "--", package.python, JOBS / "mlp.py"]
    done = package.vramtrace(*arguments)
    assert done.returncode == 0, done.stderr
    ledger = json.loads(done.stdout.splitlines()[-1])
    device = json.loads(package.vramtrace("report", "--json", recording).stdout)["devices"][0]
    assert device["tensor"]["peak_bytes"] == ledger["allocated_bytes.all.peak"]
    assert device["reserved"]["peak_bytes"] == ledger["reserved_bytes.all.peak"]
    peak = json.loads(package.vramtrace("peak", "--json", recording).stdout)["devices"][0]
    assert str(JOBS) in {os.path.dirname(group["site"]["file"]) for group in peak["groups"] if group["site"]}


def test_the_simulated_driver_is_loaded_once_under_all_its_names(package, tmp_path):
    program = [package.python, "-c", LOADER]
    done = package.vramtrace("run", "-q", "--simulate", "h100", "-o", tmp_path / "x.vtr", "--", *program)
    assert (done.stdout, done.returncode) == ("once\n", 0), done.stderr

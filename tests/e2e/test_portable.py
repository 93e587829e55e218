# SPDX-License-Identifier: MIT
"""The portable Python package asks for no symbol newer than glibc 2.28, and records PyTorch as the usual one does."""

import os
import re
import shutil
import subprocess

import pytest

from harness import JOBS, TREE, Vramtrace, python

pytestmark = pytest.mark.slow  # it is built by another compiler

NEWEST = (2, 28)


@pytest.fixture(scope="module")
def portable(vramtrace):
    """What the package carries, built in the build folder."""
    folder = vramtrace.program.parent / "portable"
    done = subprocess.run([TREE / "setup" / "portable.sh", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return Vramtrace(folder / "package")


def programs(portable):
    return [portable.program, portable.interpose, *sorted(portable.simgpu.glob("*.so*"))]


def test_no_symbol_is_newer(portable):
    for path in programs(portable):
        text = subprocess.check_output(["readelf", "--version-info", "-W", path], text=True)
        versions = {tuple(map(int, number.split("."))) for number in re.findall(r"GLIBC_([\d.]+)", text)}
        assert not {version for version in versions if version > NEWEST}, path
        assert not re.search(r"GLIBC_PRIVATE|GLIBC_ABI|GLIBCXX|GCC_", text), path


def test_nothing_but_the_c_library_is_needed(portable):
    for path in programs(portable):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", subprocess.check_output(["readelf", "-dW", path], text=True))
        ours = {"libsimgpu.so"} if path.parent == portable.simgpu else set()
        others = {name for name in needed if not re.match(r"(libc|libm|libpthread|libdl|librt|ld-linux.*)\.so", name)}
        assert others <= ours, path


def test_it_records_pytorch(portable, tmp_path):
    done = portable.record(tmp_path / "job.vtr", python("mlp.py"), options=["--stacks", "full"])
    assert done.status == 0, done.stderr
    tensor = portable.json("report", done.path)["devices"][0]["tensor"]
    assert tensor["peak_bytes"] == done.ledger["allocated_bytes.all.peak"]
    assert tensor["allocs"] == done.ledger["allocation.all.allocated"]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("debootstrap"), reason="needs root and debootstrap")
def test_it_is_loaded_once_in_debian_11(portable, tmp_path):
    """glibc 2.31, where threads and dlopen are libraries of their own."""
    root = tmp_path / "root"
    subprocess.run(["debootstrap", "--variant=minbase", "bullseye", root], check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(portable.program.parent, root / "opt" / "vramtrace")
    script = "mount -t proc proc /proc && /opt/vramtrace/vramtrace run -q --simulate h100 -- cat /proc/self/maps"
    command = ["unshare", "-m", "-p", "-f", "chroot", root, "sh", "-c", script]
    maps = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    first = [line.split()[5] for line in maps.splitlines() if line.split()[2] == "00000000" and len(line.split()) > 5]
    for name in ("libinterpose.so", "simgpu/libsimgpu.so"):
        assert first.count(f"/opt/vramtrace/{name}") == 1, maps

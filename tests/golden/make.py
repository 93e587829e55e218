# SPDX-License-Identifier: MIT
"""
Make golden traces of the current format version: make.py BUILD PYTHON [NAME ...], where PYTHON is that of the tests'
environment. Only for a new version, or for names that are not there yet: README.md says why. Everything is recorded
in namespaces of its own (unshare, no root needed), so that no trace names a folder or the host of this machine.
"""

import argparse
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PRELOAD = HERE.parent / "preload"
GOLDEN = HERE / "v1"
HOST = "golden"
FRAME = b"\xb6\x56\x46\xe9"  # how one begins
STAGE = Path("/opt")  # an empty folder in the namespace; what the recorded programs use is mounted in it
JOB, BUILD, PYTHON, PACKAGES = (STAGE / name for name in ("job", "vramtrace", "python", "packages"))

JOBS = {  # name: (script, options of run)
    "training": ("training.py", ()),
    "instances": ("instances.py", ()),
    "native-stacks": ("stacks.py", ("--stacks", "full")),
    "refused": ("refused.py", ("--tracker",)),
    "ranges": ("ranges.py", ()),
    "killed": ("killed.py", ("--exec",)),
    "checked": ("killed.py", ("--exec",)),
    "sweep": ("sweep.py", ()),
}
ROWS = {  # name: program of tests/preload, its case
    "virtual-memory": ("rows_virtual", "mappings"),
    "references": ("rows_virtual", "references"),
    "address-ranges": ("rows_virtual", "address_ranges"),
    "sparse-arrays": ("rows_virtual", "sparse_arrays"),
    "ipc": ("rows_virtual", "ipc"),
    "arrays": ("rows_memory", "mipmapped_arrays"),
    "failing-frees": ("rows_memory", "a_refused_free_restores_the_block"),
    "bad-frees": ("rows_memory", "free_of_device_memory"),
    "pools": ("rows_pool", "free_of_pool_memory"),
    "pools-of-others": ("rows_pool", "pools_of_other_processes"),
    "graphs": ("rows_graph", "launches"),
    "limits": ("rows_context", "limits"),
    "reset": ("rows_context", "device_reset"),
}
KEPT = {  # name: of which golden trace, where it begins, where another checkpoint is
    "kept": ("training", 70, 110),
    "kept-ranges": ("ranges", 100, 180),
    "kept-references": ("references", 7, 10),
    "kept-pools": ("pools", 8, 12),
    "kept-passes": ("training", 120, 130),
    "kept-settings": ("settings", 9, 12),
}
INDEXED = {  # name: of which golden trace, where a checkpoint is
    "indexed": ("training", 40, 90),
    "indexed-references": ("references", 5, 9),
}
CUT_BYTES = 300  # of the end of "training", to make "cut"
CUT_CENSUS = "named.2.names"  # in the middle of its third frame


def python_says(python, expression):
    program = f"import os, sys, sysconfig; print({expression})"
    return subprocess.run([python, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def enter(build, python):
    """Mount what is needed in the namespace; from here on nothing else is used."""
    subprocess.run(["hostname", HOST], check=True)
    mounts = {
        BUILD: build,
        PYTHON: python_says(python, "sys.base_prefix"),
        PACKAGES: python_says(python, "sysconfig.get_path('purelib')"),
    }
    subprocess.run(["mount", "-t", "tmpfs", "golden", STAGE], check=True)
    JOB.mkdir()
    for place, source in mounts.items():
        place.mkdir()
        subprocess.run(["mount", "--bind", source, place], check=True)
    for script in (*HERE.glob("jobs/*.py"), HERE.parent / "e2e" / "jobs" / "ranges.py"):
        shutil.copy(script, JOB)
    return (BUILD / "cuda.flags").read_text().replace(str(mounts[PACKAGES]), str(PACKAGES)).split()


def record(name, program, options=(), **environment):
    """Record a program; keep its trace, and the ring file of one that was killed, compressed."""
    env = {"PATH": os.environ["PATH"], "HOME": str(JOB), "PYTHONDONTWRITEBYTECODE": "1", "VRAMTRACE_CUPTI": "off"}
    env |= {"LD_LIBRARY_PATH": str(PYTHON / "lib"), "PYTHONPATH": str(PACKAGES)}
    env |= environment
    output = JOB / f"{name}.rec"
    argv = [BUILD / "vramtrace", "run", "-q", "--simulate", "2xh100", "--rings", "folder", "-o", output, *options, "--", *program]
    done = subprocess.run(argv, env=env, cwd=JOB, stdout=subprocess.DEVNULL)
    if done.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"make.py: '{name}' ended with {done.returncode}")
    (trace,) = output.glob("*.vtr")
    shutil.copyfile(trace, GOLDEN / f"{name}.vtr")
    for ring in output.glob("*.ring"):
        (GOLDEN / f"{name}.ring.xz").write_bytes(lzma.compress(ring.read_bytes(), preset=9))
    for census in output.glob("*.names"):
        keep_census(census, GOLDEN / f"{name}{census.name.removeprefix(trace.stem)}")


def keep_census(source, target):
    data = source.read_bytes()
    frames = [found.start() for found in re.finditer(re.escape(FRAME), data)]
    target.write_bytes(data[: (frames[2] + frames[3]) // 2] if target.name == CUT_CENSUS else data)


def compile_c(source, *flags, name=None):
    result = JOB / (name or source.stem)
    if not result.exists():
        subprocess.run(["cc", "-w", "-O1", "-D_GNU_SOURCE", source, *flags, "-o", result], check=True)
    return result


def compile_row(program, flags):
    return compile_c(PRELOAD / f"{program}.c", *flags, f"-L{BUILD}/simgpu", "-l:libcuda.so.1")


def hurried(flags):
    """The disk takes a second for one write: the program does not wait so long, and events are lost."""
    slow = compile_c(HERE.parent / "crash" / "fail_calls.c", "-shared", "-fPIC", "-ldl", name="slow.so")
    fault = {"LD_PRELOAD": str(slow), "FAIL_CALL": "pwrite", "FAIL_AT": "2", "FAIL_TIMES": "1", "FAIL_WITH": "slow"}
    record("hurried", [compile_c(HERE / "jobs" / "hurried.c", *flags)], **fault)


def past_hooks(flags):
    """A plugin calls the driver where no hook hears it, and CUPTI tells."""
    source = HERE.parent / "e2e" / "cupti" / "past_hooks.c"
    plugin = compile_c(source, "-DPLUGIN", "-shared", "-fPIC", "-ldl", name="plugin.so")
    record("past-hooks", [compile_c(source, *flags, "-ldl"), plugin], ("--cupti",))


def named(_):
    """No census but those of the failures: whether another one is taken depends on the time."""
    record("named", [PYTHON / "bin" / "python3", "named.py"], VRAMTRACE_NAMES="oom")


def nodes(_):
    record("nodes", [PYTHON / "bin" / "python3", "nodes.py"], VRAMTRACE_NAMES="oom")


def views(_):
    record("views", [PYTHON / "bin" / "python3", "views.py"], VRAMTRACE_NAMES="oom")


def settings(_):
    """No census: it would be one more file."""
    record("settings", [PYTHON / "bin" / "python3", "settings.py"], VRAMTRACE_NAMES="off")


def copies(_):
    """No census, as for settings."""
    record("copies", [PYTHON / "bin" / "python3", "copies.py"], VRAMTRACE_NAMES="off")


def imported(_):
    """No program: what another tool has recorded."""
    output = JOB / "imported.rec"
    snapshot = HERE.parent / "fuzz" / "corpus" / "pickle" / "protocol4"
    subprocess.run([BUILD / "vramtrace", "import", "-o", output, snapshot], check=True)
    (trace,) = output.glob("*.vtr")
    shutil.copyfile(trace, GOLDEN / "imported.vtr")


PROGRAMS = {
    "hurried": hurried,
    "past-hooks": past_hooks,
    "named": named,
    "nodes": nodes,
    "views": views,
    "settings": settings,
    "copies": copies,
    "imported": imported,
}


def break_copies():
    """What no program leaves at will: an unfinished frame, and one with a wrong byte."""
    whole = (GOLDEN / "training.vtr").read_bytes()
    (GOLDEN / "cut.vtr").write_bytes(whole[:-CUT_BYTES])
    middle = whole.find(FRAME, len(whole) // 2)
    damaged = bytearray(whole)
    damaged[middle + 100] ^= 0x20
    (GOLDEN / "damaged.vtr").write_bytes(damaged)


def rewrite(build, copies, *options):
    """What takes a recorder megabytes: traces with checkpoints, written as it writes them."""
    program = JOB / "leave_out"
    link = [f"-I{HERE.parents[1]}", HERE / "leave_out.c", f"{build}/libtracefmt.a", "-lzstd", "-o", program]
    subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", *link], check=True)
    for name, (source, *places) in copies.items():
        argv = [program, *options, GOLDEN / f"{source}.vtr", GOLDEN / f"{name}.vtr", *map(str, places)]
        subprocess.run(argv, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("python")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.inside:
        argv = [sys.executable, Path(__file__).resolve(), "--inside", args.build.absolute(), args.python, *args.names]
        raise SystemExit(subprocess.run(["unshare", "-rmu", *argv]).returncode)
    flags = enter(args.build, args.python)
    GOLDEN.mkdir(exist_ok=True)
    names = args.names or [*JOBS, *ROWS, *PROGRAMS, "broken", "kept", "indexed"]
    for name in names:
        if name in JOBS:
            script, options = JOBS[name]
            record(name, [PYTHON / "bin" / "python3", script], options)
        elif name in ROWS:
            program, case = ROWS[name]
            record(name, [compile_row(program, flags), case])
        elif name in PROGRAMS:
            PROGRAMS[name](flags)
        elif name == "broken":
            break_copies()
        elif name == "kept":
            rewrite(BUILD, KEPT, "-d")
        elif name in KEPT:
            rewrite(BUILD, {name: KEPT[name]}, "-d")
        elif name == "indexed":
            rewrite(BUILD, INDEXED)
        else:
            raise SystemExit(f"make.py: there is no golden trace '{name}'")


main()

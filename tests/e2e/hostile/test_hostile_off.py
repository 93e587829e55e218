# SPDX-License-Identifier: MIT
"""Programs and places under which recording cannot begin, or not as usual: it begins another way, or says why not.

Nothing was seen is said only where no hook saw anything.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import LIMIT_S, program_environment
from interpreters import installed

PROGRAMS = Path(__file__).resolve().parent / "programs"
NOBODY = 65534
RING = 16384  # events of a thread that fit into its ring
SEEN = "no use of GPU memory was seen"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems and changes its user")


@pytest.fixture(scope="module")
def limits(compile_c, cuda_flags):
    return compile_c(PROGRAMS / "hostile_limits.c", *cuda_flags)


@pytest.fixture(scope="module")
def places(compile_c, cuda_flags):
    return compile_c(PROGRAMS / "hostile_places.c", *cuda_flags)


@pytest.fixture(scope="module")
def old_container(compile_c):
    return compile_c(PROGRAMS / "under_old_container.c")


@pytest.fixture
def run(vramtrace, tmp_path):
    """run(program, ...): under `vramtrace run`; its status, stdout and stderr."""

    def run(*program, output=tmp_path / "job.vtr", options=("--simulate", "h100"), before=(), status=0, env=None, **more):
        argv = [*before, vramtrace.program, "run", *options, "-o", output, "--", *program]
        done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=LIMIT_S,
                              stdin=subprocess.DEVNULL, env=program_environment(env), **more)  # fmt: skip
        assert done.returncode == status, done.stderr
        return done

    return run


def recorded(vramtrace, path):
    """What `info` says of a recording of one process: its totals, and the process."""
    found = vramtrace.json("info", path)
    (process,) = found["process_list"]
    return found["recording"], process


def pairs_of(vramtrace, path):
    (device,) = vramtrace.json("report", path)["devices"]
    return device["driver"]["allocs"], device["driver"]["frees"]


def check_whole(vramtrace, path, pairs):
    total, process = recorded(vramtrace, path)
    assert total["complete"] and total["lost_events"] == 0 and process["end"] == "exit"
    assert pairs_of(vramtrace, path) == (pairs, pairs)
    return process


# ---- ways to record all the same ------------------------------------------------------------------------


def test_no_private_descriptors(vramtrace, run, places, old_container, tmp_path, reliability):
    """The thread that writes is made in another way; it has descriptors of its own, and follows the program's user."""
    done = run(old_container, places, "command", "60000", "true")
    assert SEEN not in done.stderr
    check_whole(vramtrace, tmp_path / "job.vtr", 60000)
    reliability(
        "no-private-descriptors",
        program="on a kernel before 5.9 under a container's seccomp profile: no `close_range()`, no `unshare()`",
        ends="the same",
        lost="0 of 120,000",
        said="nothing: the writing thread is made by `clone()`",
    )


@needs_root
def test_no_private_descriptors_and_another_user(vramtrace, run, places, old_container, tmp_path, reliability):
    """No thread keeps the rights that the program has given up, also the one that the C library does not know."""
    done = run(old_container, places, "user", "60000", "")
    roots, tasks = map(int, done.stdout.split(" of "))
    assert (roots, tasks) == (0, 3)
    check_whole(vramtrace, tmp_path / "job.vtr", 60000)
    reliability(
        "no-private-descriptors-new-user",
        program="the same, and it gives up root's rights in mid-run",
        ends="the same; no thread is root's",
        lost="0 of 120,000",
        said="nothing",
    )


def test_no_thread(vramtrace, run, limits, tmp_path, reliability):
    """What the rings hold is there; what they do not hold is counted."""
    folder = tmp_path / "open"
    folder.mkdir()
    before = []
    if os.geteuid() == 0:  # who is not held to a limit of threads
        folder.chmod(0o777)
        for above in folder.parents:
            if above != Path("/") and not above.stat().st_mode & 1:
                above.chmod(above.stat().st_mode | 0o011)
        before = ["setpriv", "--reuid", NOBODY, "--clear-groups"]
    pairs = RING
    program = shutil.copy(limits, folder)
    done = run(program, "threads", pairs, output=folder / "job.vtr", before=before, env={"HOME": str(folder)})
    assert SEEN not in done.stderr
    total, process = recorded(vramtrace, folder / "job.vtr")
    assert process["end"] == "exit" and not total["complete"]
    assert process["events"] <= RING < process["events"] + 64
    assert process["events"] + total["lost_events"] > 2 * pairs
    assert any("no thread to write with" in note for note in process["notes"])
    reliability(
        "no-thread",
        program="its user may have no more threads (`RLIMIT_NPROC`)",
        ends="the same",
        lost="all but the first 16,384 of each thread, counted",
        said="`info`: no thread to write with (errno 11)",
    )


def test_little_address_space(vramtrace, run, limits, tmp_path, reliability):
    run(limits, "space", "60000")
    check_whole(vramtrace, tmp_path / "job.vtr", 60000)
    reliability(
        "little-address-space",
        program="it limits its address space to 400 MiB before it calls CUDA",
        ends="the same",
        lost="0 of 120,000",
        said="nothing: rings are mapped as they are wanted",
    )


def test_locked_memory(vramtrace, run, limits, tmp_path, reliability):
    """mlockall() locks the program's memory, not room that the recorder does not use: 500 MiB once."""
    locked = int(run(limits, "lock", "1000").stdout)
    plain = int(run(limits, "lock", "1000", options=("--simulate", "h100", "--no-record")).stdout)
    assert locked - plain < 20 << 10
    check_whole(vramtrace, tmp_path / "job.vtr", 1000)
    reliability(
        "locked-memory",
        program="it locks all its memory, also what is yet to be mapped (`mlockall`)",
        ends="the same, with less than 20 MiB more locked",
        lost="0 of 2,000",
        said="nothing",
    )


def test_folder_removed(vramtrace, run, places, tmp_path, reliability):
    """A cleanup job removes it in mid-run: it is made anew, with all that the removed file held."""
    run(places, "command", "60000", f"rm -rf {tmp_path}/job.vtr")
    process = check_whole(vramtrace, tmp_path / "job.vtr", 60000)
    assert any("files were removed while it recorded, and made anew" in note for note in process["notes"])
    assert vramtrace.call("verify", tmp_path / "job.vtr").returncode == 0
    reliability(
        "folder-removed",
        program="the recording's folder is removed in mid-run",
        ends="the same",
        lost="0 of 120,000",
        said="`info`: its files were removed while it recorded, and made anew",
    )


def test_folder_removed_for_good(vramtrace, run, places, tmp_path, reliability):
    """A file is where the folder was: said, with what that cost."""
    done = run(places, "command", "60000", f"rm -rf {tmp_path}/job.vtr; echo > {tmp_path}/job.vtr")
    said = re.search(r"pid \d+ \('hostile_places'\) did not record its use of GPU memory: its files were removed while it "
                     r"recorded, and could not be made anew \(Not a directory\); (\d+) events are missing", done.stderr)
    assert said and int(said[1]) >= 2000 and SEEN not in done.stderr
    assert "nothing recorded: cannot write" in done.stderr
    reliability(
        "folder-removed-for-good",
        program="the same, and a file takes the folder's place",
        ends="the same",
        lost="all, counted",
        said="`run`: its files were removed while it recorded, and could not be made anew",
    )


@pytest.mark.parametrize("when, said", [("early-file", None), ("file", "disk full")])
def test_small_files(vramtrace, run, limits, tmp_path, reliability, when, said):
    """A limit on the size of files is the program's: no signal for what we write, and the trace says where it stops."""
    run(limits, when, "20000")
    total, process = recorded(vramtrace, tmp_path / "job.vtr")
    assert process["stopped"] == said
    assert total["complete"] == (said is None)
    reliability(
        "small-files" if said else "small-files-with-room",
        program=f"it limits its files to {'8 KiB after' if said else '64 MiB before'} its first call (`RLIMIT_FSIZE`)",
        ends="the same",
        lost="what came after the trace had 8 KiB" if said else "0 of 40,000",
        said="`run`, `report`: the disk was full; `info`: stopped early" if said else "nothing",
    )


def test_children_before_the_first_call(vramtrace, run, places, tmp_path, reliability):
    """A child of the shell that the program starts records, then the program itself: each its own trace."""
    run(places, "first", "10", f"{places} command 1005 true")
    found = vramtrace.json("info", tmp_path / "job.vtr")
    assert found["recording"]["complete"]
    assert sorted(device["driver"]["allocs"] for device in vramtrace.json("report", tmp_path / "job.vtr")["devices"]) == [10, 1005]
    reliability(
        "children-first",
        program="a child of its shell uses the GPU before it does",
        ends="the same",
        lost="0 of 2,030",
        said="nothing: two traces",
    )


def test_no_arguments(vramtrace, run, compile_c, limits, tmp_path, reliability):
    """exec with an empty list of arguments: argc is 0."""
    other = compile_c(PROGRAMS / "no_arguments.c")
    run(other, limits)
    assert not recorded(vramtrace, tmp_path / "job.vtr")[1]["lost_events"]
    reliability(
        "no-arguments",
        program="it is started without arguments, also without its name (argc is 0)",
        ends="the same",
        lost="0",
        said="nothing",
    )


# ---- before the constructor ------------------------------------------------------------------------------


def test_before_the_constructor(vramtrace, run, compile_c, cuda_flags, tmp_path, reliability):
    """What a library's initialiser takes, before anything that is preloaded has been initialised."""
    library = compile_c(PROGRAMS / "early_library.c", "-shared", "-fPIC", *cuda_flags)
    program = compile_c(PROGRAMS / "early_program.c", library, f"-Wl,-rpath,{library.parent}", *cuda_flags)
    run(program, "one", "two", options=("--simulate", "h100", "--record-argv"))
    process = check_whole(vramtrace, tmp_path / "job.vtr", 2)
    (device,) = vramtrace.json("report", tmp_path / "job.vtr")["devices"]
    assert device["driver"]["peak_bytes"] == (1 << 30) + (1 << 20)
    assert process["program"] == "early_program" and process["info"]["argv"] == f"{program} one two"
    reliability(
        "before-the-constructor",
        program="a library's initialiser takes 1 GiB, before preloaded libraries are initialised",
        ends="the same",
        lost="0",
        said="nothing: the first call makes the recorder ready",
    )


# ---- threads -----------------------------------------------------------------------------------------------


def test_fork_after_init(vramtrace, tmp_path, run, reliability):
    """Python 3.12 warns on stderr where a process with threads forks; with nothing recorded there is none."""
    new = [path for path, version in installed().items() if version >= (3, 12)]
    if not new:
        pytest.skip("no Python of 3.12 or later is installed here")
    for python in new:
        done = run(python, "-W", "always", PROGRAMS / "forks_after_init.py")
        assert done.stdout == "devices 1\n"
        assert done.stderr == f"vramtrace: nothing recorded: {SEEN}\n"
    reliability(
        "fork-after-init",
        program="Python 3.12 or later asks for the number of devices and forks",
        ends="the same, no `DeprecationWarning`",
        lost="0",
        said="nothing recorded: no use of GPU memory was seen",
    )


# ---- places where nothing can be written ---------------------------------------------------------------


@pytest.fixture
def small_disk(request, tmp_path):
    """A file system in memory with these limits."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", request.param, "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


DID_NOT = r"pid \d+ \('{}'\) did not record its use of GPU memory: {}"


@needs_root
@pytest.mark.parametrize("small_disk", ["nr_inodes=3", "size=4k"], indirect=True)
def test_nothing_can_be_made(vramtrace, run, limits, small_disk, reliability, request):
    """Neither trace nor reason has a file: the reason is a line more in the job's."""
    done = run(limits, "plain", "10", output=small_disk / "job.vtr", env={"TMPDIR": str(small_disk)})
    why = DID_NOT.format("hostile_limits", r"its trace could not be made \(No space left on device\); \d+ events are missing")
    assert re.search(why, done.stderr) and done.stderr.endswith("vramtrace: nothing recorded\n")
    for command in ("info", "report", "verify"):
        said = vramtrace.call(command, small_disk / "job.vtr")
        assert said.returncode == 2 and re.search(f"holds no trace: {why}", said.stderr)
    name = "no-inodes" if "inodes" in request.node.name else "disk-full-at-once"
    reliability(
        name,
        program="no file can be made any more" if name == "no-inodes" else "the disk is full at the first byte of the trace",
        ends="the same",
        lost="all, counted",
        said="`run` and every reader: its trace could not be made (No space left on device)",
    )


def test_another_root(vramtrace, run, places, tmp_path, reliability):
    """The recording's folder is out of reach: said by run, which is not."""
    if os.geteuid():
        pytest.skip("only root changes a program's root")
    (tmp_path / "empty").mkdir()
    env = vramtrace.preload_environment(vramtrace.simgpu / "libsimgpu.so")
    done = run(places, "root", "10", tmp_path / "empty", options=(), env={
        name: env[name] for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "SIMGPU_PROFILE")})  # fmt: skip
    why = DID_NOT.format("hostile_places", r"the recording's folder could not be made or written "
                                           r"\(No such file or directory\); \d+ events are missing")  # fmt: skip
    assert re.search(why, done.stderr) and SEEN not in done.stderr
    reliability(
        "another-root",
        program="it changes its root before it takes memory (`chroot`)",
        ends="the same",
        lost="all, counted",
        said="`run`: the recording's folder could not be made or written (No such file or directory)",
    )


# ---- folders that are not ours -------------------------------------------------------------------------


@needs_root
@pytest.mark.parametrize("owner, mode, said", [(0, 0o777, "others may write into"), (NOBODY, 0o700, "belongs to user 65534")])
def test_a_folder_of_others(vramtrace, run, limits, tmp_path, reliability, owner, mode, said):
    """run refuses it before the program starts; without run nothing is written there."""
    folder = tmp_path / "job.vtr"
    folder.mkdir()
    folder.chmod(mode)
    os.chown(folder, owner, owner)
    done = run(limits, "plain", "10", status=125)
    assert f"'{folder}'" in done.stderr and said in done.stderr
    env = vramtrace.preload_environment(vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", VRAMTRACE_OUTPUT=folder)
    plain = subprocess.run([limits, "plain", "10"], env=env, capture_output=True, timeout=LIMIT_S)
    assert (plain.returncode, plain.stdout, plain.stderr) == (0, b"", b"")
    assert not list(folder.iterdir())
    reliability(
        "folder-of-others" if owner else "folder-for-others",
        program="the recording's folder " + ("belongs to somebody else" if owner else "may be written by others"),
        ends="is not started by `run`; the same without it",
        lost="all",
        said=f"`run`: {said} ...",
    )


def test_a_link_to_a_folder(vramtrace, limits, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "job.vtr").symlink_to(tmp_path / "elsewhere")
    env = vramtrace.preload_environment(
        vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", VRAMTRACE_OUTPUT=tmp_path / "job.vtr"
    )
    subprocess.run([limits, "plain", "10"], env=env, check=True, timeout=LIMIT_S)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_reason_stays_in_the_folder(vramtrace, limits, places, tmp_path):
    """Beside a trace of the same job: the recording is not complete, and every reader says why."""
    env = vramtrace.preload_environment(vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so",
                                        VRAMTRACE_OUTPUT=tmp_path / "job.vtr", VRAMTRACE_JOB="one")  # fmt: skip
    subprocess.run([limits, "plain", "10"], env=env, check=True, timeout=LIMIT_S)
    (trace,) = (tmp_path / "job.vtr").glob("*.vtr")
    assert vramtrace.json("info", tmp_path / "job.vtr")["recording"]["complete"]
    (tmp_path / "job.vtr" / "host.1.2.77.3.why").write_text("why trace\nerrno 28\nunrecorded 3\nprogram train.py\nlater 1\n")
    recording = vramtrace.json("info", tmp_path / "job.vtr")["recording"]
    text = "pid 77 ('train.py') did not record its use of GPU memory: its trace could not be made (No space left on device)" \
        "; 3 events are missing"
    assert not recording["complete"] and recording["unrecorded"] == [
        {"pid": 77, "program": "train.py", "why": "trace", "errno": 28, "unrecorded_events": 3, "text": text}
    ]
    assert text in vramtrace.call("info", tmp_path / "job.vtr").stdout
    report = vramtrace.json("report", tmp_path / "job.vtr")["recording"]
    assert not report["complete"] and report["unrecorded"] == recording["unrecorded"]
    assert text in vramtrace.call("report", tmp_path / "job.vtr").stderr
    verified = vramtrace.call("verify", tmp_path / "job.vtr")
    assert verified.returncode == 1 and text in verified.stdout
    assert vramtrace.json("info", trace)["recording"]["complete"]


# ---- programs that cannot be recorded ------------------------------------------------------------------


@pytest.fixture(params=["32 bits", "musl", "setuid"])
def foreign(request, compile_c, tmp_path):
    if request.param == "musl":
        if not shutil.which("musl-gcc"):
            pytest.skip("musl-gcc is not installed")
        program = tmp_path / "prints"
        subprocess.run(["musl-gcc", "-o", program, PROGRAMS / "prints_environment.c"], check=True)
    elif request.param == "32 bits":
        flags = ["-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-fno-stack-protector", "-O1"]
        program = tmp_path / "prints"
        source = PROGRAMS / "environment_of_32_bits.c"
        made = subprocess.run(["cc", *flags, "-o", program, source], capture_output=True)
        if made.returncode or subprocess.run([program], capture_output=True).returncode:
            pytest.skip("no 32-bit program can be made and run here")
    else:
        program = tmp_path / "prints"
        shutil.copy(compile_c(PROGRAMS / "prints_environment.c"), program)
        program.chmod(0o4755)
    return request.param, program


@pytest.mark.parametrize("others", [None, "libtheir.so"])
def test_programs_that_cannot_use_it(run, foreign, others, compile_c, tmp_path, reliability):
    """They are started without us, and with what else was to be preloaded."""
    kind, program = foreign
    if others and kind == "musl":
        pytest.skip("what is the program's own stays, and no library here is for musl")
    theirs = None
    if others:
        (tmp_path / "their.c").write_text("int their_own;\n")
        theirs = str(compile_c(tmp_path / "their.c", "-shared", "-fPIC"))
    done = run(sys.executable, PROGRAMS / "starts_programs.py", program, tmp_path / "script",
               env={"LD_PRELOAD": theirs} if theirs else None)  # fmt: skip
    for how, printed in json.loads(done.stdout).items():
        lines = printed.splitlines()
        assert not [line for line in lines if line.startswith("NVTX_INJECTION64_PATH=")], how
        assert [line for line in lines if line.startswith("LD_PRELOAD=")] == ([f"LD_PRELOAD={theirs}"] if theirs else []), how
        assert "VRAMTRACE_OUTPUT=" in printed and not [line for line in lines if "rror" in line], how
    reliability(
        {"32 bits": "child-32-bits", "musl": "child-musl", "setuid": "child-setuid"}[kind],
        program={"32 bits": "a child for a 32-bit processor", "musl": "a child of another C library (musl)",
                 "setuid": "a child with another user's rights (setuid)"}[kind],
        ends="the same: it is started without `LD_PRELOAD`",
        lost="0",
        said="nothing",
    )  # fmt: skip


def test_other_children_keep_it(run, compile_c, tmp_path):
    """A shell or launcher that --only leaves out may start what it names: that is recorded."""
    program = compile_c(PROGRAMS / "prints_environment.c")
    done = run(sys.executable, PROGRAMS / "starts_programs.py", program, tmp_path / "script",
               options=("--simulate", "h100", "--only", "nothing"))  # fmt: skip
    for how, printed in json.loads(done.stdout).items():
        assert "libinterpose.so" in printed, how


def test_traces_of_some_processes_removed(run, vramtrace, compile_c, cuda_flags, tmp_path, reliability):
    """A process's trace is removed after that has ended, and another process records: `run` says that one is missing."""
    program, folder = compile_c(PROGRAMS / "one_allocation.c", *cuda_flags), tmp_path / "job.vtr"
    done = run("sh", "-c", f"'{program}' && rm '{folder}'/*.vtr && '{program}'")
    said = "1 process that used GPU memory: removed, or ended before it was made"
    assert f"vramtrace: no trace is left in '{folder}' of {said}" in done.stderr
    assert recorded(vramtrace, folder)
    reliability("traces-removed", program="the trace of a process of the job is removed after that process has ended",
                ends="the same", lost="all of that process", said=f"`run`: no trace is left of {said}")

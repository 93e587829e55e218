# SPDX-License-Identifier: MIT
"""Libraries that look functions up, load others and unload them: the same as without the recorder, and recorded."""
import fcntl
import json
import os
import pathlib
import shutil
import struct
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).absolute()
PRELOAD = BUILD / "libinterpose.so"
CC = [*os.environ.get("CC", "gcc").split(), "-O1", "-g"]
EMULATOR = os.environ.get("VRAMTRACE_EMULATOR", "").split()  # another processor's programs run in it
ANSWERS = {"nccl": 41, "nccl2": 42}  # which copy of NCCL was called


def library(source, out, *flags):
    out.parent.mkdir(exist_ok=True)
    subprocess.run([*CC, "-shared", "-fPIC", HERE / source, *map(str, flags), "-o", out], check=True)
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("scenes")
    driver = library("fake_driver.c", out / "libcuda.so.1", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1")
    (out / "second").mkdir()
    shutil.copy(driver, out / "second" / "libcuda.so.1")
    library("visitor.c", out / "visitor.so")
    library("visitor.c", out / "own.so", "-DOWN")
    library("visitor.c", out / "linked.so", "-Wl,--no-as-needed", driver, "-Wl,-rpath,$ORIGIN")
    library("visitor.c", out / "trampoline.so", "-DTRAMPOLINE")
    for place, answer in ANSWERS.items():
        library("fake_nccl.c", out / place / "libnccl.so.2", f"-DANSWER={answer}", "-Wl,-soname,libnccl.so.2")
    library("fake_nccl.c", out / "libcollect.so", "-DANSWER=43")  # no soname: needed by its path
    for number, nccl in enumerate((out / "nccl" / "libnccl.so.2", out / "libcollect.so")):
        library("visitor.c", out / f"collects{number}.so", "-DCOLLECT", nccl, "-Wl,-rpath,$ORIGIN:$ORIGIN/nccl")
    library("other_torch.c", out / "other_torch.so")
    needs = ["-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN:$ORIGIN/nccl"]
    library("visitor.c", out / "libvisited.so", "-Wl,-soname,libvisited.so")
    library("other_torch.c", out / "root.so", *needs, out / "libvisited.so")
    library("other_torch.c", out / "root_of_all.so", *needs, out / "libvisited.so", driver, out / "nccl" / "libnccl.so.2")
    library("visitor.c", out / "inner" / "plugin.so")
    library("visitor.c", out / "outer.so", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner")
    for tool in ("libcupti.so.13", "libnvidia-ml.so.1", "libnvperf_host.so", "libToolsInjection64.so", "libcudnn.so.9"):
        library("visitor.c", out / tool)
    subprocess.run([*CC, "-rdynamic", HERE / "scenes.c", "-o", out / "scenes"], check=True)
    for name, linked in ("with_driver", [driver]), ("with_trampoline", [out / "trampoline.so", driver]):
        subprocess.run([*CC, HERE / "scenes.c", "-Wl,--no-as-needed", *linked, f"-Wl,-rpath,{out}", "-o", out / name],
                       check=True)
    return out


def play(folder, *args, program="scenes", preload=(PRELOAD,), recording=None):
    env = dict(os.environ, LD_LIBRARY_PATH=str(folder), VRAMTRACE_OUTPUT=str(recording or folder / "%p.vtr"))
    if preload:
        env["LD_PRELOAD"] = ":".join(map(str, preload))
    result = subprocess.run([*EMULATOR, folder / program, *args], env=env, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout.splitlines()


def shown(recording, command):
    out = subprocess.run([*EMULATOR, BUILD / "vramtrace", command, "--json", recording], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)


def recorded_allocs(recording):
    return [d["driver"]["allocs"] for d in shown(recording, "report")["devices"]]


def notes(recording):
    return subprocess.run([*EMULATOR, BUILD / "vramtrace", "info", recording], capture_output=True, text=True, check=True).stdout


def test_a_librarys_own_functions_of_such_names_are_left_alone(folder):
    assert play(folder, "own_names", folder / "own.so") == [
        "cudnnCreate: cudnnCreate in own.so", "cuFoo: cuFoo in own.so", "cuMemAlloc_v2: cuMemAlloc_v2 in own.so",
        "cuMemAlloc_v2 for the program: cuMemAlloc_v2 in own.so"]


@pytest.mark.parametrize("program", ["scenes", "with_driver"])
def test_dlerror_says_what_it_says_without_the_recorder(folder, program):
    said = play(folder, "errors", folder / "visitor.so", program=program)
    assert said == play(folder, "errors", folder / "visitor.so", program=program, preload=())
    assert sum("no error" not in line for line in said) >= 5


@pytest.mark.parametrize("program", ["scenes", "with_driver"])
def test_what_is_missing_without_the_recorder_is_missing_with_it(folder, program):
    said = play(folder, "missing", folder / "visitor.so", program=program)
    assert said == play(folder, "missing", folder / "visitor.so", program=program, preload=())
    assert said.count("from the program: no error") == (1 if program == "with_driver" else 0)


def test_a_library_finds_what_was_loaded_with_it(folder):
    """It was needed by another, needs nothing itself, and looks in RTLD_DEFAULT."""
    names = "cuMemAlloc_v2", "cuMemHostAlloc", "ncclAllReduce", "ncclGetVersion", "cuptiSubscribe"
    for root in "root.so", "root_of_all.so":
        said = play(folder, "loaded_with", folder / root, *names)
        plain = play(folder, "loaded_with", folder / root, *names, preload=())
        assert [line.replace("libinterpose.so", "libcuda.so.1") for line in said[:1]] == plain[:1]
        assert [line.replace("libinterpose.so", "libnccl.so.2") for line in said[1:]] == plain[1:]
    assert said[0].endswith("libinterpose.so") and plain[0].endswith("libcuda.so.1")


@pytest.mark.parametrize("names", [["nccl"], ["nccl", "nccl2"], ["nccl", "nccl2", "nccl"]])
def test_nccl_that_is_opened_for_everybody_and_closed(folder, names):
    copies = [folder / name / "libnccl.so.2" for name in names]
    said = play(folder, "collectives", *copies)
    assert said == [line for name in names for line in (f"call: {ANSWERS[name]}", "close: 0")]


def test_each_library_calls_the_nccl_that_it_was_linked_with(folder):
    collecting = [folder / f"collects{number}.so" for number in (0, 1, 0)]
    assert play(folder, "answers", "visitor_collect", *collecting) == ["41", "43", "41"]


def test_nccl_by_another_name(folder):
    assert play(folder, "collectives", folder / "libcollect.so") == ["call: 43", "close: 0"]


def test_what_nccl_takes_and_makes_is_its_own(folder, tmp_path):
    nccl = folder / "nccl" / "libnccl.so.2"
    assert play(folder, "collective_memory", nccl, program="with_driver", recording=tmp_path / "o.vtr") == ["made: 0x5eed0"]
    dumped = subprocess.run([*EMULATOR, BUILD / "vramtrace", "dump", "--json", tmp_path / "o.vtr"], capture_output=True,
                            text=True, check=True)
    events = [json.loads(line) for line in dumped.stdout.splitlines()]
    assert [(e["size"], e["call"]) for e in events if e["kind"] == "driver_alloc"] == [
        (1000, "ncclMemAlloc"), (2000, "ncclCommWindowRegister, communicator 1")]
    assert [e["address"] for e in events if e.get("object") == "communicator"] == [0x5EED0]


def test_torch_in_a_library_of_another_name(folder):
    assert play(folder, "answers", "visitor_count", folder / "other_torch.so") == ["7"]


def test_a_librarys_runpath_leads_to_its_plugins(folder):
    assert play(folder, "runpath", folder / "outer.so", "plugin.so") == ["opened: yes"]


def test_the_driver_and_tools_find_the_real_functions(folder):
    found = dict(line.split(": ") for line in play(folder, "callers", *(folder / name for name in (
        "visitor.so", "libcudnn.so.9", "libcupti.so.13", "libnvidia-ml.so.1", "libnvperf_host.so", "libToolsInjection64.so"))))
    ours = [name for name, what in found.items() if what.endswith("in libinterpose.so")]
    assert ours == ["visitor.so", "libcudnn.so.9"]
    assert set(found.values()) == {"cuMemAlloc_v2 in libinterpose.so", "cuMemAlloc_v2 in libcuda.so.1"}


def test_a_driver_in_the_scope_of_one_library(folder, tmp_path):
    said = play(folder, "local_scope", folder / "linked.so", recording=tmp_path / "o.vtr")
    assert said == ["for the library: cuMemAlloc_v2 in libinterpose.so", "for the program: none", "call: 0"]
    assert recorded_allocs(tmp_path / "o.vtr") == [1]


@pytest.mark.parametrize("others", [[], ["other.so"]])
def test_a_library_that_stands_in_for_the_driver_is_called_once_a_call(folder, tmp_path, others):
    """TensorFlow exports the driver's names and looks their functions up itself: nobody may call himself."""
    library("other_dlsym.c", folder / "other.so")
    before = play(folder, "calls", program="with_trampoline", preload=[folder / o for o in others])
    said = play(folder, "calls", program="with_trampoline", preload=[PRELOAD, *(folder / o for o in others)],
                recording=tmp_path / "o.vtr")
    assert said == before == ["call: 0"] * 3 + ["through the trampoline: 3"]
    assert recorded_allocs(tmp_path / "o.vtr") == [3]


def driver_events(recording):
    out = subprocess.run([*EMULATOR, BUILD / "vramtrace", "dump", "--json", recording], capture_output=True, text=True,
                         check=True).stdout
    lines = (json.loads(line) for line in out.splitlines())
    return [(e["kind"], e.get("space"), e["call"], e["size"]) for e in lines
            if e.get("kind") in ("driver_alloc", "driver_free", "alloc_failed", "free_failed")]


@pytest.mark.parametrize("comes_before", [False, True], ids=["after", "before"])
def test_an_interposer_that_gives_other_memory(folder, tmp_path, comes_before):
    """What it makes of a call is recorded once, as it is; what is just its own, beside it."""
    other = library("swapper.c", folder / "swapper.so", "-ldl")
    preload = [other, PRELOAD] if comes_before else [PRELOAD, other]
    before = play(folder, "swapped", program="with_driver", preload=[other])
    assert play(folder, "swapped", program="with_driver", preload=preload, recording=tmp_path / "o.vtr") == before
    free = "cuMemFreeAsync" if comes_before else "cuMemFree_v2"
    allocs = [("driver_alloc", "managed", "cuMemAllocManaged", 4096), ("driver_alloc", "managed", "cuMemAllocManaged", 512),
              ("driver_alloc", "device", "cuMemAlloc_v2", 600)]
    failed = [("alloc_failed", "managed", "cuMemAllocManaged", 1 << 40)]
    if comes_before:
        failed.append(("alloc_failed", "device", "cuMemAlloc_v2", 1 << 40))
    found = driver_events(tmp_path / "o.vtr")
    assert found[:-3] == allocs + failed
    assert [(kind, call) for kind, _, call, _ in found[-3:]] == [("driver_free", free), ("driver_free", free),
                                                                 ("free_failed", free)]
    assert found[-3][1::2] == ("managed", 4096)


def test_a_driver_that_is_unloaded_and_another(folder, tmp_path):
    drivers = [folder / "libcuda.so.1", folder / "second" / "libcuda.so.1"] * 2
    said = play(folder, "drivers", *drivers, recording=tmp_path / "o.vtr")
    assert said == ["call: 0 address", "free: 0", "close: 0"] * 4
    assert recorded_allocs(tmp_path / "o.vtr") == [4]


def test_a_driver_in_a_namespace_of_its_own_is_left_alone(folder, tmp_path):
    """Its functions are not those that the wrappers call. The trace says that they were not recorded."""
    said = play(folder, "namespaces", folder / "libcuda.so.1", recording=tmp_path / "o.vtr")
    assert said == ["here: cuMemAlloc_v2 in libinterpose.so", "there: cuMemAlloc_v2 in libcuda.so.1", "call: 0", "call: 0"]
    assert recorded_allocs(tmp_path / "o.vtr") == [1]
    assert "'libcuda.so.1' was loaded into a namespace of its own (dlmopen)" in notes(tmp_path / "o.vtr")


def test_deep_binding_is_taken_from_cudas_libraries_only(folder, tmp_path):
    library("all_runtime.c", folder / "libcudart.so.13", "-Wl,-soname,libcudart.so.13")
    assert play(folder, "deep", "libcudart.so.13", folder / "visitor.so", recording=tmp_path / "o.vtr") == [
        "opened: yes", "opened: yes", "call: 0"]
    said = notes(tmp_path / "o.vtr")
    assert "'libcudart.so.13' was to be loaded with RTLD_DEEPBIND" in said
    assert "'visitor.so' was loaded with RTLD_DEEPBIND" in said


def test_a_function_that_the_driver_lacks(folder):
    """The recorder's symbol is there, the function is not: CUDA's own codes say so, as lookups do."""
    assert play(folder, "lacking", program="scenes") == ["call: 303"]
    assert play(folder, "lacking", program="with_driver") == ["call: 500"]


@pytest.mark.parametrize("is_sealed", [True, False], ids=["sealed", "file"])
def test_only_a_page_that_nobody_can_cut_short_is_written_to(folder, tmp_path, monkeypatch, is_sealed):
    """`run` lends a page of sealed memory. A file that somebody cut short would end the program at its next store."""
    page = struct.pack("<I", 0x31575456).ljust(1024 * 64, b"\0")
    fd = os.memfd_create("page", os.MFD_ALLOW_SEALING) if is_sealed else os.open(tmp_path / "page", os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(fd, page, 0)
        if is_sealed:
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        monkeypatch.setenv("VRAMTRACE_WITNESS", f"/proc/{os.getpid()}/fd/{fd}")
        play(folder, "calls", program="with_driver", recording=tmp_path / "o.vtr")
        assert (os.pread(fd, len(page), 0) != page) == is_sealed
    finally:
        os.close(fd)

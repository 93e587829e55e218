# SPDX-License-Identifier: MIT
"""What a process may become: another image, a child of whatever call, a daemon, another user; and how it may end."""
import json
import os
import pathlib
import signal
import shutil
import stat
import subprocess
import tempfile

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).absolute()
TEN = 20  # events
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do that")


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    out = tmp_path_factory.mktemp("lives")
    cc = [os.environ.get("CC", "gcc"), "-O1", "-g"]
    driver = out / "libcuda.so.1"
    subprocess.run([*cc, "-shared", "-fPIC", HERE / "fake_driver.c", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1",
                    "-o", driver], check=True)
    subprocess.run([*cc, "-Wno-free-nonheap-object", HERE / "process_lives.c", driver, f"-Wl,-rpath,{out}", "-lpthread",
                    "-o", out / "lives"], check=True)
    return out


def environment(recording, **more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VRAMTRACE_")}
    return kept | {"VRAMTRACE_OUTPUT": str(recording), "VRAMTRACE_JOB": "test"} | more


def live(lives, tmp_path, *arguments, under=()):
    """Run it, recorded; returns how it ended and what the report says."""
    env = environment(tmp_path / "o.vtr", **({} if under else {"LD_PRELOAD": f"{BUILD}/libinterpose.so"}))
    done = subprocess.run([*under, lives / "lives", *arguments], env=env, capture_output=True, text=True, timeout=120)
    return done, report(tmp_path / "o.vtr")


def report(recording):
    done = subprocess.run([BUILD / "vramtrace", "report", "--json", recording], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_whole(done, found, status=0):
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
    assert found["recording"]["complete"]
    assert found["recording"]["lost_events"] == 0


def ends(found):
    """A replaced image counts as an end by exit there; `info` tells it apart."""
    return sorted(process["end"] for process in found["process_list"])


def events(found):
    """Allocations and frees."""
    return sum(device["driver"]["allocs"] + device["driver"]["frees"] for device in found["devices"])


@pytest.mark.parametrize("how", ["execl", "execlp", "execle", "execv", "execvp", "execve", "execvpe", "fexecve",
                                 "execveat"])
def test_an_image_that_replaces_itself(lives, tmp_path, how):
    done, found = live(lives, tmp_path, how)
    check_whole(done, found)
    assert ends(found) == ["exit", "exit"]
    info = subprocess.run([BUILD / "vramtrace", "info", "--json", tmp_path / "o.vtr"], capture_output=True, text=True)
    assert [process["end"] for process in json.loads(info.stdout)["process_list"]] == ["exec", "exit"]
    assert len({process["pid"] for process in found["process_list"]}) == 1
    assert events(found) == 2 * TEN


@pytest.mark.parametrize("how", ["vfork", "spawn", "clone", "clone3", "daemon"])
def test_a_child_records_for_itself(lives, tmp_path, how):
    done, found = live(lives, tmp_path, how)
    check_whole(done, found)
    assert ends(found) == ["exit", "exit"]
    assert len({process["pid"] for process in found["process_list"]}) == 2
    assert events(found) == 3 * TEN
    assert not list((tmp_path / "o.vtr").glob("*.ring"))


def test_a_daemon_of_the_c_library(lives, tmp_path):
    """Its parent is said to have ended as it did, though it keeps its ring file."""
    done, found = live(lives, tmp_path, "library_daemon")
    check_whole(done, found)
    assert ends(found) == ["exit"] * 3
    assert sorted(process["exit_status"] for process in found["process_list"]) == [0] * 3
    assert events(found) == 3 * TEN


def test_forks_while_threads_are_inside_hooks(lives, tmp_path):
    done, found = live(lives, tmp_path, "storm")
    check_whole(done, found)
    assert ends(found) == ["exit"] * 21
    devices = {device["pid"]: device["driver"]["allocs"] for device in found["devices"]}
    assert sorted(devices.values())[:20] == [TEN / 2] * 20


@needs_root
def test_another_root_folder(lives, tmp_path):
    (tmp_path / "empty").mkdir()
    done, found = live(lives, tmp_path, "chroot", tmp_path / "empty")
    check_whole(done, found)
    assert events(found) == TEN + 40000
    assert not list((tmp_path / "o.vtr").glob("*.ring"))


def test_a_umask_that_forbids_everything(lives, tmp_path):
    done, found = live(lives, tmp_path, "umask")
    check_whole(done, found)
    modes = {path.name.rsplit(".")[-1]: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("o.vtr/*")}
    assert modes == {"job": 0o600, "vtr": 0o600}
    assert stat.S_IMODE((tmp_path / "o.vtr").stat().st_mode) == 0o700


@needs_root
def test_another_user(lives, tmp_path):
    """What was opened stays open; a child that may not write there is not recorded, and does not notice."""
    done, found = live(lives, tmp_path, "uid")
    check_whole(done, found)
    assert ends(found) == ["exit"]
    assert events(found) == 2 * TEN + 40000


def test_closing_everything(lives, tmp_path):
    done, found = live(lives, tmp_path, "closefrom")
    check_whole(done, found)
    assert events(found) == 2 * TEN + 60 + 20000


def test_frees_after_main(lives, tmp_path):
    done, found = live(lives, tmp_path, "late")
    check_whole(done, found)
    assert events(found) == 2 * TEN + 2 + 1 + 3


def test_frees_in_a_handler_of_quick_exit(lives, tmp_path):
    done, found = live(lives, tmp_path, "quick_exit")
    check_whole(done, found, 4)
    assert (ends(found), events(found)) == (["exit"], TEN + 2)
    assert found["process_list"][0]["exit_status"] == 4


@pytest.mark.parametrize("how, said, nr_tens", [("leave", "bye", 1), ("leave_first", "on bye", 2)])
def test_main_ends_as_a_thread_does(lives, tmp_path, how, said, nr_tens):
    """The recorder's own thread is not why a process goes on."""
    untraced = subprocess.run([lives / "lives", how], capture_output=True, text=True, timeout=20)
    done, found = live(lives, tmp_path, how)
    assert [(d.returncode, d.stdout, d.stderr) for d in (untraced, done)] == 2 * [(0, said, "")]
    assert found["recording"]["complete"]
    assert (ends(found), events(found)) == (["exit"], nr_tens * TEN + 4)  # what is kept, and a destructor's


@pytest.mark.parametrize("how, nr_tens", [("raw_exit", 1), ("raw_exit_first", 2)])
def test_main_ends_by_the_raw_call(lives, tmp_path, how, nr_tens):
    """Which the kernel alone sees: no handler runs, and the recorder's own thread must see that it is left alone."""
    status = subprocess.run([lives / "lives", how], timeout=20).returncode
    done, found = live(lives, tmp_path, how)
    check_whole(done, found, status)
    assert (ends(found), events(found)) == (["exit"], nr_tens * TEN + 1)
    assert found["process_list"][0]["exit_status"] == status


def test_main_ends_by_the_raw_call_without_memory(lives, tmp_path):
    env = environment(tmp_path / "o.vtr", LD_PRELOAD=f"{BUILD}/libinterpose.so")
    assert subprocess.run([lives / "lives", "raw_exit_idle"], env=env, timeout=20).returncode == 7
    assert not (tmp_path / "o.vtr").exists()


def test_the_raw_system_call(lives, tmp_path):
    """Nobody in the process can see it; whoever supervises does."""
    done, found = live(lives, tmp_path, "exit_group")
    check_whole(done, found, 7)
    assert ends(found) == ["killed"]


@pytest.mark.parametrize("how, end, status", [("exit_group", "exit", 7), ("assert", "signal", signal.SIGABRT),
                                              ("free", "signal", signal.SIGABRT)])
def test_ends_that_only_run_sees(lives, tmp_path, how, end, status):
    under = [BUILD / "vramtrace", "run", "-q", "-o", tmp_path / "o.vtr", "--"]
    done, found = live(lives, tmp_path, how, under=under)
    assert done.returncode == (status if end == "exit" else -status)
    assert found["recording"]["complete"]
    assert ends(found) == [end]
    assert found["process_list"][0]["exit_status"] == (status if end == "exit" else None)
    assert events(found) == TEN


@pytest.fixture
def public_folder(lives):
    """Where another user can read, too: the program, linked with driver and recorder."""
    out = pathlib.Path(tempfile.mkdtemp(prefix="vramtrace-test-"))
    out.chmod(0o777)
    for library in (BUILD / "libinterpose.so", lives / "libcuda.so.1"):
        shutil.copy(library, out)
    subprocess.run([os.environ.get("CC", "gcc"), "-Wno-free-nonheap-object", "-Wl,--no-as-needed", HERE / "process_lives.c",
                    out / "libinterpose.so", out / "libcuda.so.1", f"-Wl,-rpath,{out}", "-lpthread", "-o", out / "linked"],
                   check=True)
    yield out
    shutil.rmtree(out)


@needs_root
def test_a_program_with_privileges_is_not_recorded(public_folder, tmp_path):
    """Of set-user-id programs the loader takes no preloads; one that is linked with the library refuses by itself."""
    env = environment(tmp_path / "o.vtr")
    done = subprocess.run([public_folder / "linked", "ten"], env=env, capture_output=True, text=True)
    found = report(tmp_path / "o.vtr")
    check_whole(done, found)
    assert events(found) == TEN
    os.chown(public_folder / "linked", 65534, 65534)
    (public_folder / "linked").chmod(0o4755)
    done = subprocess.run([public_folder / "linked", "ten"], env=environment(public_folder / "none.vtr"),
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (public_folder / "none.vtr").exists()


def library(name):
    """An installed library's path; the test is skipped without it."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    found = [line.split(" => ")[1] for line in listed.splitlines() if line.split()[:1] == [name]]
    return found[0] if found else pytest.skip(f"'{name}' is not installed")


@pytest.fixture(scope="module")
def interposer(lives):
    """Another library that puts itself before the driver's allocation and the C library's calls."""
    subprocess.run([os.environ.get("CC", "gcc"), "-O1", "-shared", "-fPIC", HERE.parent / "crash" / "halt.c",
                    "-o", lives / "halt.so"], check=True)
    return lives / "halt.so"


@pytest.mark.parametrize("other", ["interposer", "libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
@pytest.mark.parametrize("place", ["before", "after"])
def test_another_preload(lives, tmp_path, interposer, other, place):
    path = interposer if other == "interposer" else library(other)
    ours = BUILD / "libinterpose.so"
    env = environment(tmp_path / "o.vtr", LD_PRELOAD=f"{path}:{ours}" if place == "before" else f"{ours}:{path}")
    done = subprocess.run([lives / "lives", "storm"], env=env, capture_output=True, text=True, timeout=120)
    found = report(tmp_path / "o.vtr")
    check_whole(done, found)
    assert ends(found) == ["exit"] * 21

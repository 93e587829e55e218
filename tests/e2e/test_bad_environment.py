# SPDX-License-Identifier: MIT
"""Settings that cannot be understood, and places that cannot be written: the program never notices."""
import json
import os
import re
import subprocess
import sys

import pytest

from harness import LIMIT_S, TREE, program_environment, python


def outcome(program, env, **options):
    done = subprocess.run([str(word) for word in program], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=LIMIT_S, **options)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def plain(vramtrace):
    """What the program does on the simulated GPU when nobody records."""
    env = vramtrace.preload_environment(vramtrace.simgpu / "libsimgpu.so")
    del env["VRAMTRACE_SIMULATE"]
    return outcome(python("untouched.py", "printing"), env)


@pytest.fixture
def traced(vramtrace, plain, tmp_path):
    """traced(NAME=value, ...): record with these settings; checks the program's side of it."""

    def run(cwd=tmp_path, **settings):
        env = vramtrace.preload_environment(vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so",
                                            VRAMTRACE_OUTPUT=tmp_path / "job.vtr")
        env = {name.encode(): value.encode() for name, value in env.items()}
        env |= {name.encode(): os.fsencode(value) for name, value in settings.items()}
        assert outcome(python("untouched.py", "printing"), env, cwd=cwd) == plain

    return run


def info_of(vramtrace, recording):
    return vramtrace.json("info", recording)["process_list"][0]


NOTES = [
    ("VRAMTRACE_STACKS", "deep", "VRAMTRACE_STACKS='deep' is not python, full or none: "),
    ("VRAMTRACE_STACKS", "FULL", "VRAMTRACE_STACKS='FULL' is not python, full or none: "),
    ("VRAMTRACE_CUPTI", "yes", "VRAMTRACE_CUPTI='yes' is not off, on or auto: off taken"),
    ("VRAMTRACE_SAMPLE_MIB", "many", "VRAMTRACE_SAMPLE_MIB='many' is no number of MiB: 64 taken"),
    ("VRAMTRACE_SAMPLE_MIB", "-1", "VRAMTRACE_SAMPLE_MIB='-1' is no number of MiB: 64 taken"),
    ("VRAMTRACE_STAKCS", "full", "unknown variable 'VRAMTRACE_STAKCS': it sets nothing"),
    ("VRAMTRACE_", "1", "unknown variable 'VRAMTRACE_': it sets nothing"),
    ("VRAMTRACE_STACKS", "x" * 5000, f"VRAMTRACE_STACKS='{'x' * 60}' is not python, full or none: "),
]


@pytest.mark.parametrize("name, value, note", NOTES, ids=[f"{n}={v[:8]}" for n, v, _ in NOTES])
def test_a_setting_that_cannot_be_understood_is_noted_once(vramtrace, traced, tmp_path, name, value, note):
    traced(**{name: value})
    found = info_of(vramtrace, tmp_path / "job.vtr")
    assert found["complete"] and found["events"]
    assert [n for n in found["notes"] if "VRAMTRACE_" in n and n.startswith(note)] == [
        n for n in found["notes"] if "VRAMTRACE_" in n]
    text = vramtrace.call("info", tmp_path / "job.vtr").stdout
    assert text.count(note) == 1


def test_a_profile_alone_simulates_nothing(vramtrace, compile_c, tmp_path):
    driver = compile_c(TREE / "tests/preload/fake_driver.c", "-shared", "-fPIC", "-Wl,-Bsymbolic",
                       "-Wl,-soname,libcuda.so.1")
    script = "import ctypes, sys; d = ctypes.CDLL(sys.argv[1]); d.cuInit(0); " \
             "d.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(512))"
    env = program_environment({"LD_PRELOAD": str(vramtrace.interpose), "VRAMTRACE_OUTPUT": str(tmp_path / "job.vtr"),
                               "VRAMTRACE_SIMULATE": "h100"})
    assert outcome([sys.executable, "-c", script, driver], env) == (0, b"", b"")
    found = info_of(vramtrace, tmp_path / "job.vtr")
    assert not found["simulated"] and "simulated" not in found["info"]
    assert "VRAMTRACE_SIMULATE='h100' alone simulates nothing: the GPU is real" in found["notes"]


def test_several_settings_are_all_noted(vramtrace, traced, tmp_path):
    traced(VRAMTRACE_STACKS="all", VRAMTRACE_CUPTI="maybe", **{f"VRAMTRACE_X{i}": "" for i in range(20)})
    notes = [n for n in info_of(vramtrace, tmp_path / "job.vtr")["notes"] if "VRAMTRACE_" in n]
    assert len(notes) == 16 and notes[-1] == "7 more unknown variables VRAMTRACE_*"
    assert len([n for n in notes if n.startswith("unknown variable 'VRAMTRACE_X")]) == 13


def test_known_settings_are_not_noted(vramtrace, traced, tmp_path):
    listed = re.findall(r"^\| `(VRAMTRACE_[A-Z_]+)` \|", (TREE / "docs" / "environment.md").read_text(), re.MULTILINE)
    assert "VRAMTRACE_STACKS" in listed
    known = {name: "" for name in listed if name != "VRAMTRACE_OUTPUT"}
    traced(**known | dict(VRAMTRACE_STACKS="full", VRAMTRACE_CUPTI="off", VRAMTRACE_SAMPLE_MIB="16", VRAMTRACE_JOB="one"))
    assert not [n for n in info_of(vramtrace, tmp_path / "job.vtr")["notes"] if "VRAMTRACE_" in n]


@pytest.mark.parametrize("value", ["a\nb", "x" * 1000, "../..", "%p%h%", "\udcff\udcfe", " "], ids=ascii)
def test_any_job_id_will_do(vramtrace, traced, tmp_path, value):
    traced(VRAMTRACE_JOB=value)
    traced(VRAMTRACE_JOB=value)  # the same job: the same recording
    assert len(vramtrace.json("info", tmp_path / "job.vtr")["process_list"]) == 2


@pytest.mark.parametrize("value", [b"\xff\xfe", b"\x1b[31m", b"'quoted\""], ids=ascii)
def test_odd_bytes_are_shown_harmlessly(vramtrace, traced, tmp_path, value):
    traced(VRAMTRACE_STACKS=value)
    done = subprocess.run([vramtrace.program, "info", "--json", tmp_path / "job.vtr"], capture_output=True)
    assert "VRAMTRACE_STACKS=" in json.loads(done.stdout)["process_list"][0]["notes"][0]
    text = subprocess.run([vramtrace.program, "info", tmp_path / "job.vtr"], capture_output=True).stdout
    text.decode()
    assert b"\x1b" not in text


@pytest.mark.parametrize("value", ["/nonexistent", "relative", "", "/dev/null", "/" + "x" * 5000])
def test_any_temporary_folder_will_do(vramtrace, traced, tmp_path, value):
    traced(TMPDIR=value)
    assert info_of(vramtrace, tmp_path / "job.vtr")["complete"]


def test_unknown_letters_of_the_output_stay(vramtrace, traced, tmp_path):
    traced(VRAMTRACE_OUTPUT="a%z%%b%", VRAMTRACE_JOB="one")
    assert [p.name for p in tmp_path.iterdir()] == ["a%z%b%"]


# ---- places -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def read_only(tmp_path_factory):
    """A folder that cannot be written, by root neither."""
    folder = tmp_path_factory.mktemp("read_only")
    if os.geteuid():
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", folder], capture_output=True).returncode:
        pytest.skip("no read-only file system can be made here")
    yield folder
    subprocess.run(["umount", folder], check=True)


PLACES = ["missing/job.vtr", "file", "file/job.vtr", "dangling", "dangling/job.vtr", "/proc/job.vtr", "/dev/null",
          "x" * 300, "d/" * 2500, "read-only"]


@pytest.fixture
def place(request, tmp_path, read_only):
    """One of PLACES, made ready."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    name = request.param
    return read_only / "job.vtr" if name == "read-only" else name if name[0] == "/" else f"{tmp_path}/{name}"


@pytest.mark.parametrize("place", PLACES, indirect=True, ids=[p[:20] for p in PLACES])
def test_a_place_that_cannot_be_written(traced, tmp_path, place):
    before = sorted(tmp_path.rglob("*"))
    traced(VRAMTRACE_OUTPUT=place)
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "file").read_text() == "mine"


def test_a_working_folder_that_is_gone(vramtrace, plain, tmp_path):
    """A relative name leads nowhere then."""
    gone = tmp_path / "gone"
    gone.mkdir()
    env = vramtrace.preload_environment(vramtrace.interpose, vramtrace.simgpu / "libsimgpu.so", VRAMTRACE_OUTPUT="job.vtr")
    program = ["sh", "-c", 'cd "$1" && rmdir "$1" && shift && exec "$@"', "sh", gone, *python("untouched.py", "printing")]
    status, stdout, stderr = outcome(program, env)
    assert (status, stdout) == plain[:2]
    assert not [line for line in stderr.splitlines() if line not in plain[2].splitlines() and b"getcwd" not in line]


@pytest.mark.parametrize("place", ["file", "dangling", "/proc/job.vtr"], indirect=True)
def test_run_says_what_went_wrong(vramtrace, plain, place):
    """Under a scheduler, where nobody can be asked, the program runs all the same."""
    done = vramtrace.call("run", "-q", "--simulate", "h100", "-o", place, "--", *python("untouched.py", "printing"),
                          text=False, env=program_environment({"SLURM_JOB_ID": "7"}))
    assert (done.returncode, done.stdout) == plain[:2]
    said = [line for line in done.stderr.splitlines() if line not in plain[2].splitlines()]
    assert said[-1].startswith(f"vramtrace: nothing recorded: cannot write '{place}': ".encode()), said


def test_run_says_that_the_recording_has_been_removed(vramtrace, tmp_path):
    """By the program, before it took any memory."""
    (tmp_path / "folder").mkdir()
    script = "import os, ctypes, runpy, sys; os.rmdir(sys.argv[2]); runpy.run_path(sys.argv[1])"
    job = tmp_path / "job.py"
    job.write_text(python("untouched.py")[1].read_text().replace("sys.argv[1]", "'printing'"))
    done = vramtrace.call("run", "--simulate", "h100", "-o", tmp_path / "folder" / "job.vtr", "--", python("x.py")[0],
                          "-c", script, job, tmp_path / "folder", text=False, env=program_environment())
    assert done.returncode == 0
    assert b"nothing recorded: cannot write" in done.stderr.splitlines()[-1]

# SPDX-License-Identifier: MIT
"""What can go wrong with a simulated GPU: a clear message before the program starts, or the documented error in it."""

import re
import signal
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from harness import TREE, program_environment

PROGRAMS = TREE / "tests" / "e2e" / "programs"

# The cards that simulation.md promises.
KNOWN = "v100-16 v100-32 t4 a10 l4 l40s rtx3090 rtx4090 rtx5090 a100-40 a100-80 h100 h200 b200".split()


def simulate(vramtrace, *program, options=(), gpu="h100", **more):
    """Lend a simulated GPU to a program, without a recording; `env` adds to the tests' own."""
    env = program_environment(more.pop("env", None))
    return vramtrace.call("run", "--no-record", "--simulate", gpu, *options, "--", *program, env=env, **more)


# ---- before the program starts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gpu, named, nearest",
    [
        ("h1000", "h1000", "h100"),
        ("8xfoo", "foo", None),
        ("", "", None),
        ("8x", "", None),
        ("3h100", "3h100", "h100"),
        ("2xA100-81GB", "A100-81GB", "a100-80"),
        ("rtx4080", "rtx4080", "rtx4090"),
        ("mi300x", "mi300x", None),
    ],
)
def test_an_unknown_gpu_lists_the_known_ones(vramtrace, tmp_path, gpu, named, nearest):
    done = simulate(vramtrace, "touch", tmp_path / "started", gpu=gpu)
    assert done.returncode == 125
    message, known = done.stderr.split(";")
    assert message == f"vramtrace: unknown GPU '{named}'" + (f" (the nearest is '{nearest}')" if nearest else "")
    assert set(KNOWN) <= set(re.findall(r"[\w-]+", known))
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    "gpu, profile",
    [
        ("a100", "a100-80"),
        ("v100", "v100-16"),
        ("h100-80", "h100"),
        ("2xH100-80GB", "h100"),
        ("RTX 4090", "rtx4090"),
        ("3090", "rtx3090"),
        ("NVIDIA H100 80GB HBM3", "h100"),
    ],
)
def test_other_names_of_gpus(vramtrace, gpu, profile):
    """What people and nvidia-smi call a card is understood, and what it stands for is said."""
    done = simulate(vramtrace, "sh", "-c", "echo $SIMGPU_PROFILE $SIMGPU_DEVICES", gpu=gpu)
    assert done.returncode == 0
    assert done.stdout == f"{profile} {2 if gpu[0] == '2' else 1}\n"
    assert f"vramtrace: '{gpu}' is simulated as '{profile}'\n" in done.stderr
    quiet = simulate(vramtrace, "true", gpu=gpu, options=["-q"])
    assert quiet.stderr == ""
    assert "is simulated as" not in simulate(vramtrace, "true", gpu=f"2x{profile}").stderr


@pytest.mark.parametrize("gpu", ["0xh100", "65xh100", "99999999999999999999xh100"])
def test_a_number_of_gpus_that_cannot_be(vramtrace, tmp_path, gpu):
    done = simulate(vramtrace, "touch", tmp_path / "started", gpu=gpu)
    assert done.returncode == 125
    assert f"cannot simulate '{gpu}': 1 to 64 GPUs" in done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("size", ["24QiB", "0", "24", "", "-1GiB", "GiB", "100TiB", "unlimited!", "1e9"])
def test_a_malformed_capacity(vramtrace, tmp_path, size):
    done = simulate(vramtrace, "touch", tmp_path / "started", options=[f"--simulate-capacity={size}"])
    assert done.returncode == 125
    assert f"cannot simulate a capacity of '{size}'; expected a size such as 24GiB" in done.stderr
    assert "'unlimited'" in done.stderr
    assert not (tmp_path / "started").exists()


def test_a_capacity_of_a_real_gpu(vramtrace, tmp_path):
    done = vramtrace.call("run", "--simulate-capacity", "24GiB", "--", "touch", tmp_path / "started")
    assert done.returncode == 125
    assert "'--simulate-capacity' needs '--simulate'" in done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    "variable, value",
    [
        ("SIMGPU_PROFILE", "h1000"),
        ("SIMGPU_DEVICES", "0"),
        ("SIMGPU_DEVICES", "two"),
        ("SIMGPU_CAPACITY", "24GiB"),
        ("SIMGPU_CAPACITY", "0"),
        ("SIMGPU_CAPACITY", "-1"),
        ("SIMGPU_CAPACITY", "99999999999999999999"),
        ("SIMGPU_SHARE", "/no-such-folder/share"),
        ("SIMGPU_SHARE", "/etc/passwd"),
    ],
)
def test_a_malformed_variable_under_preload(vramtrace, variable, value):
    """Without `run` there is nobody but the simulated GPU itself to refuse: a line, and status 125."""
    code = """
        import ctypes
        cuda = ctypes.CDLL("libcuda.so.1")
        cuda.cuInit(0)
        print(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0))
    """
    env = vramtrace.preload_environment(vramtrace.simgpu / "libsimgpu.so", **{variable: value})
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith(f"simgpu: {variable} '{value}' is not usable: ")
    assert done.stderr.count("\n") == 1


def test_a_real_gpu_is_hidden_and_said_to_be_once(vramtrace, compile_c, tmp_path):
    """A preload lets `run` believe that the machine has a device node of the real driver; a driver answers, too."""
    env = {"LD_PRELOAD": str(compile_c(PROGRAMS / "device_node.c", "-shared", "-fPIC")), "LD_LIBRARY_PATH": str(tmp_path)}
    shutil.copy(compile_c(PROGRAMS / "answering_driver.c", "-shared", "-fPIC"), tmp_path / "libcuda.so.1")
    show = [sys.executable, "-c", "import torch; print(torch.cuda.get_device_name())"]
    done = simulate(vramtrace, *show, gpu="t4", env=env)
    assert (done.returncode, done.stdout) == (0, "Tesla T4\n")
    assert done.stderr.count("this machine has a GPU, which the program will not see") == 1
    done = simulate(vramtrace, "true", gpu="t4", env=env, options=["-q"])
    assert done.stderr == ""
    if vramtrace.call("gpu").returncode:
        assert simulate(vramtrace, "true", gpu="t4").stderr == ""


# ---- in the program --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stripped", [False, True])
def test_a_static_runtime_is_explained(vramtrace, compile_c, cuda_flags, stripped):
    """The runtime in the program asks for the driver's private tables and gives up; one line says so."""
    shared = next(Path(flag) for flag in cuda_flags if "/libcudart.so" in flag)
    archive = shared.with_name("libcudart_static.a")
    if not archive.exists():
        pytest.skip(f"no '{archive}'")
    include = [flag for flag in cuda_flags if not flag.startswith((str(shared), "-Wl"))]
    libraries = [archive, "-ldl", "-lpthread", "-lrt"]
    program = compile_c(PROGRAMS / "count_devices.c", *include, *libraries, *["-s"] * stripped)
    done = simulate(vramtrace, program)
    assert (done.returncode, done.stdout) == (1, "API call is not supported in the installed CUDA driver\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"simgpu: the CUDA runtime is linked into '{program}'")
    assert "-cudart shared" in line


def test_a_shared_runtime_is_not(vramtrace, compile_c, cuda_flags):
    library = vramtrace.simgpu / "libsimgpu.so"
    done = simulate(vramtrace, compile_c(PROGRAMS / "count_devices.c", *cuda_flags, library))
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_an_access_to_freed_memory_is_fatal(vramtrace):
    """A host access to device memory that was freed faults, as one to any unmapped address does."""
    code = """
        import ctypes
        cuda, p = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0) == 0
        assert cuda.cuCtxSetCurrent(p) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20)) == 0
        assert ctypes.string_at(p.value, 1) == b"\\0" and cuda.cuMemFree_v2(p) == 0
        assert cuda.cuMemFree_v2(p) == 1  # CUDA_ERROR_INVALID_VALUE
        print("freed", flush=True)
        ctypes.string_at(p.value, 1)
    """
    done = simulate(vramtrace, sys.executable, "-c", textwrap.dedent(code))
    assert done.stdout == "freed\n"
    assert done.returncode == -signal.SIGSEGV


def test_leftovers_of_killed_ranks_are_removed(vramtrace):
    """A rank that waits for the others has a mailbox with a name; killed, it leaves it to the next job."""
    code = """
        import ctypes, os, re, signal, sys, threading
        nccl, comm = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        cuda, p = nccl, ctypes.c_void_p()
        assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0) == 0
        assert cuda.cuCtxSetCurrent(p) == 0
        class Id(ctypes.Structure):
            _fields_ = [("bytes", ctypes.c_char * 128)]
        name, nr_ranks = Id(), int(sys.argv[1])
        assert nccl.ncclGetUniqueId(ctypes.byref(name)) == 0
        nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
        join = lambda: nccl.ncclCommInitRank(ctypes.byref(comm), nr_ranks, name, 0)
        if nr_ranks == 1:
            sys.exit(join())
        threading.Thread(target=join, daemon=True).start()
        mailbox = None
        while not mailbox or not any(open(mailbox[0], "rb").read(4)):  # how many have joined
            mailbox = re.search("/dev/shm/simgpu-nccl-[0-9a-f]+", open("/proc/self/maps").read())
        print(mailbox[0], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    code = [sys.executable, "-c", textwrap.dedent(code)]
    done = simulate(vramtrace, *code, 2)
    assert done.returncode == -signal.SIGKILL
    left = Path(done.stdout.strip())
    assert left.name.startswith("simgpu-nccl-") and left.exists()
    done = simulate(vramtrace, *code, 1)
    assert done.returncode == 0, done.stderr
    assert not left.exists()


@pytest.mark.slow
def test_triton_without_a_compiler(vramtrace, tmp_path):
    """Triton builds its launcher with the host's compiler; where there is none, its own message says so."""
    code = 'import torch; torch.compile(lambda x: x * 2 + 1)(torch.ones(1000, device="cuda"))'
    empty = [f"PATH={tmp_path}", f"TRITON_CACHE_DIR={tmp_path}/triton", f"TORCHINDUCTOR_CACHE_DIR={tmp_path}/inductor"]
    done = simulate(vramtrace, "env", "-u", "CC", "SIMGPU_VALUES=off", *empty, sys.executable, "-c", code)
    assert done.returncode == 1
    assert "Failed to find C compiler. Please specify via CC environment variable" in done.stderr

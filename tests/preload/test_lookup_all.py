# SPDX-License-Identifier: MIT
"""Every driver entry point of hooks.def, looked up in every way there is, yields the wrapper of that very function."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).absolute()
PRELOAD = BUILD / "libinterpose.so"
HOOKS = HERE.parent.parent / "libinterpose" / "hooks.def"
LOOKUPS = ("cuGetProcAddress", "cuGetProcAddress_v2")
CC = os.environ.get("CC", "gcc").split()
EMULATOR = os.environ.get("VRAMTRACE_EMULATOR", "").split()  # another processor's programs run in it
native = pytest.mark.skipif(bool(EMULATOR), reason="needs this processor's Python or CUDA libraries")


class Row:
    """A DRIVER or ALIAS row: the symbol and the (base name, version, stream) under which it is looked up."""

    def __init__(self, line):
        kind, fields = re.match(r"(\w+)\((.*)\)$", line).groups()
        self.line, self.alias = line, kind == "ALIAS"
        self.symbol, base, version, *rest = [f.strip() for f in fields.split(",")]
        self.base, self.version, self.stream = base.strip('"'), int(version), rest[0] if rest else "ANY"


ROWS = [Row(line) for line in HOOKS.read_text().splitlines() if re.match(r"(DRIVER|ALIAS)\(", line)]
ROWS = [r for r in ROWS if r.symbol not in LOOKUPS]
NAMED = [r for r in ROWS if not r.alias]


def newest(row, limit=10**9):
    """The row that a lookup of this one's base name gets when it asks for any version up to the limit."""
    stream = "LEGACY" if row.stream == "ANY" else row.stream
    same = [r for r in ROWS if r.base == row.base and r.stream in ("ANY", stream) and r.version <= limit]
    return max(same, key=lambda r: r.version)


def build(out, *flags, limit=10**9, driver=()):
    """Driver, runtime and the two programs in folder `out`; the driver has entry points up to version `limit`."""
    out.mkdir()
    has = [r for r in ROWS if r.version <= limit]
    (out / "driver").mkdir()
    (out / "driver" / "rows.def").write_text("\n".join(r.line for r in has) + "\n")
    (out / "rows.def").write_text("\n".join(r.line for r in ROWS) + "\n")
    (out / "versions").write_text("DRIVER_1 { global: *; };\n")
    for args in (["-shared", "-fPIC", f"-I{out}/driver", "all_driver.c", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1",
                  *driver, "-o", out / "libcuda.so.1"],
                 ["-shared", "-fPIC", "all_runtime.c", *flags, "-Wl,-soname,libcudart.so.13", "-o", out / "libcudart.so.13"],
                 [f"-I{out}", "lookup_all.c", "-o", out / "lookup_all"]):
        subprocess.run([*CC, "-O1", "-g", *map(str, args)], cwd=HERE, check=True)
    if limit == 10**9:
        subprocess.run([*CC, "-O1", "-g", "-fPIC", f"-I{out}", "-DLINKED", "lookup_all.c", out / "libcudart.so.13",
                        out / "libcuda.so.1", "-o", out / "linked"], cwd=HERE, check=True)
    return out


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return build(tmp_path_factory.mktemp("all") / "plain")


def environment(folder, **more):
    return dict(os.environ, LD_PRELOAD=str(PRELOAD), LD_LIBRARY_PATH=str(folder),
                VRAMTRACE_OUTPUT=str(folder / "%p.vtr"), **more)


def found(folder, way, program="lookup_all", **more):
    """What the rows yield, as a list beside ROWS."""
    result = subprocess.run([*EMULATOR, folder / program, way], env=environment(folder, **more), capture_output=True, text=True,
                            timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    lines = [line.rsplit(": ", 1) for line in result.stdout.splitlines()]
    assert [key for key, _ in lines] == [f"{r.symbol} {r.base} {r.version}" for r in ROWS]
    return [what for _, what in lines]


def misses(got, wanted="wrapped"):
    return [(r.symbol, r.base, r.version, what) for r, what in zip(ROWS, got) if what != wanted]


@pytest.mark.parametrize("way", ["handle", "v1", "v2", "itself-11", "itself-12", "runtime"])
def test_every_way_yields_the_wrapper(plain, way):
    assert not misses(found(plain, way))


def test_by_version_of_the_symbol(tmp_path):
    folder = build(tmp_path / "versioned", driver=["-Wl,--version-script=" + str(tmp_path / "versioned" / "versions")])
    assert not misses(found(folder, "dlvsym"))


def test_in_a_program_linked_with_the_driver(plain):
    direct = found(plain, "direct", "linked")
    assert not [m for m, r in zip(direct, ROWS) if m != "wrapped" and not r.alias]
    assert not misses(found(plain, "default", "linked"))


def test_the_global_scope_of_a_program_without_the_driver_is_empty(plain):
    """The recorder's own symbols are there, but no driver is: the program must not be told otherwise."""
    assert not misses(found(plain, "default"), "none")


def test_a_lookup_without_a_version_yields_the_newest(plain):
    for row, what in zip(ROWS, found(plain, "newest")):
        wanted = newest(row)
        assert what == ("wrapped" if wanted.symbol == row.symbol else "wrapper of " + wanted.symbol), row.line


def test_a_driver_that_answers_with_other_addresses(tmp_path):
    """Then the name, version and stream that were asked for tell which ABI it is."""
    folder = build(tmp_path / "thunks", driver=["-DTHUNKS"])
    assert not misses(found(folder, "v2"))
    assert not misses(found(folder, "runtime"))


def test_the_doors_of_a_runtime_out_of_sight(tmp_path):
    folder = build(tmp_path / "past", "-DPAST_RECORDER")
    assert all(what.startswith("real") for what in found(folder, "runtime"))
    assert not misses(found(folder, "door", "linked"))


def test_a_driver_too_old_for_a_symbol(tmp_path):
    """It has what CUDA 11.2 had: lookups of what came later answer what the driver itself answers."""
    folder = build(tmp_path / "old", limit=11020)
    older, later = "handle", "v2"
    for row, by_name, by_version in zip(ROWS, found(folder, older), found(folder, later)):
        assert by_name == ("wrapped" if row.version <= 11020 else by_name), row.line
        if all(r.version > 11020 for r in ROWS if r.symbol == row.symbol):
            assert by_name == "none", row.line
        old = [r for r in ROWS if r.base == row.base and r.version <= 11020]
        if old:  # it has an older form of it, which is what a caller gets
            wanted = newest(row, min(row.version, 11020)) if row.stream != "PER_THREAD" else None
            assert wanted is None or by_version in ("wrapped", "wrapper of " + wanted.symbol), row.line


@native
def test_ctypes(plain):
    """Python's own dlsym, and its attribute lookup."""
    code = ("import ctypes, sys; driver = ctypes.CDLL('libcuda.so.1')\n"
            "maps = [l.split() for l in open('/proc/self/maps') if 'libinterpose.so' in l]\n"
            "ours = [tuple(int(x, 16) for x in m[0].split('-')) for m in maps]\n"
            "for name in sys.argv[1:]:\n"
            "    at = ctypes.cast(getattr(driver, name), ctypes.c_void_p).value\n"
            "    print(name, any(a <= at < b for a, b in ours))\n")
    names = [r.symbol for r in NAMED]
    result = subprocess.run([sys.executable, "-c", code, *names], env=environment(plain), capture_output=True, text=True,
                            timeout=60)
    assert result.stdout.splitlines() == [name + " True" for name in names], result.stderr


RUNTIMES = sorted(pathlib.Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/*/lib/libcudart.so.1[23]")) + sorted(
    pathlib.Path(p).absolute() for p in re.findall(r"\S+libcudart\.so\.\d+", (BUILD / "cuda.flags").read_text())
    if (BUILD / "cuda.flags").exists())


def asked(folder, preload, *args):
    log = folder / "log"
    env = environment(folder, DRIVER_LOG=str(log))
    if not preload:
        del env["LD_PRELOAD"]
    result = subprocess.run([*EMULATOR, folder / "open", *args], env=env, capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    return result.stdout, *map(int, log.read_text().split())


@native
@pytest.mark.parametrize("flags", ["", "deep"])
@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda p: p.name)
def test_a_real_runtime_asks_through_the_recorder(plain, runtime, flags):
    """All its lookups, also when it was loaded with RTLD_DEEPBIND. It finds no device, as without the recorder."""
    subprocess.run([*CC, "-O1", "-g", "open.c", "-o", plain / "open"], cwd=HERE, check=True)
    said, nr, by_recorder = asked(plain, True, runtime, "cudaFree", *flags.split())
    assert (said, nr) == asked(plain, False, runtime, "cudaFree", *flags.split())[:2]
    assert nr > 300 and by_recorder == nr


STATIC = sorted(p.parent / "libcudart_static.a" for p in RUNTIMES if (p.parent / "libcudart_static.a").exists())


@native
@pytest.mark.skipif(not STATIC, reason="no libcudart_static.a here")
def test_a_runtime_linked_statically_asks_through_the_recorder(plain):
    subprocess.run([*CC, "-O1", "-g", "-DSTATIC", "open.c", STATIC[0], "-ldl", "-lpthread", "-lrt", "-o", plain / "open"],
                   cwd=HERE, check=True)
    said, nr, by_recorder = asked(plain, True)
    assert (said, nr) == asked(plain, False)[:2]
    assert nr > 300 and by_recorder == nr


@native
def test_the_simulated_runtime_gives_wrappers():
    """cudaGetDriverEntryPoint of the simulated GPU."""
    code = ("import ctypes, sys\n"
            "maps = [l.split() for l in open('/proc/self/maps') if 'libinterpose.so' in l]\n"
            "ours = [tuple(int(x, 16) for x in m[0].split('-')) for m in maps]\n"
            "here = ctypes.CDLL(None)\n"
            "for row in sys.argv[1:]:\n"
            "    base, version, flags = row.split(':'); p = ctypes.c_void_p(); q = ctypes.c_void_p()\n"
            "    a = here.cudaGetDriverEntryPointByVersion(base.encode(), ctypes.byref(p), int(version),\n"
            "                                              ctypes.c_ulonglong(int(flags)), None)\n"
            "    b = here.cuGetProcAddress_v2(base.encode(), ctypes.byref(q), int(version),\n"
            "                                 ctypes.c_uint64(int(flags)), None)\n"
            "    print(row, a, b, all(any(x <= (v.value or 0) < y for x, y in ours) for v in (p, q)))\n")
    rows = [f"{r.base}:{r.version}:{2 if r.stream == 'PER_THREAD' else 0}" for r in ROWS]
    env = dict(os.environ, LD_PRELOAD=f"{PRELOAD}:{BUILD}/simgpu/libcuda.so.1", SIMGPU_DEVICES="1")
    result = subprocess.run([sys.executable, "-c", code, *rows], env=env, capture_output=True, text=True, timeout=60)
    assert [line for line in result.stdout.splitlines() if not line.endswith(" 0 0 True")] == [], result.stderr
    assert len(result.stdout.splitlines()) == len(rows)


@native
def test_the_simulated_runtime_reaches_wrappers_itself(tmp_path):
    """Its cudaMalloc, called past the recorder's wrapper of that name, is recorded at the driver as on a GPU."""
    code = ("import ctypes; p = ctypes.c_void_p()\n"
            "print(ctypes.CDLL('libcuda.so.1').cudaMalloc(ctypes.byref(p), ctypes.c_size_t(1 << 20)))\n")
    env = dict(os.environ, LD_PRELOAD=f"{PRELOAD}:{BUILD}/simgpu/libcuda.so.1", SIMGPU_DEVICES="1",
               VRAMTRACE_OUTPUT=str(tmp_path / "o.vtr"))
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert (result.stdout, result.stderr) == ("0\n", "")
    shown = subprocess.run([BUILD / "vramtrace", "report", "--json", tmp_path / "o.vtr"], capture_output=True, text=True,
                           check=True)
    assert [d["driver"]["peak_bytes"] for d in json.loads(shown.stdout)["devices"]] == [1 << 20]


def test_versions_are_those_of_cudas_own_list():
    """Each base name in hooks.def stands there with every ABI of cudaTypedefs.h that is newer than its oldest."""
    flags = (BUILD / "cuda.flags").read_text()
    header = next((p for p in (pathlib.Path(d) / "cudaTypedefs.h" for d in re.findall(r"-isystem (\S+)", flags)) if
                   p.exists()), None)
    if not header:
        pytest.skip("no cudaTypedefs.h here")
    known = {(base, int(version)) for base, version in re.findall(r"\bPFN_(cu\w+?)_v(\d+)(?:_ptsz)?\)", header.read_text())}
    rows = {(r.base, r.version) for r in ROWS}
    oldest = {base: min(v for b, v in rows if b == base) for base, _ in rows}
    assert not [(b, v) for b, v in known if v > oldest.get(b, v) and (b, v) not in rows]
    assert not [r for r in rows if r not in known and r[0] in {base for base, _ in known}]

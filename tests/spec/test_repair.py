# SPDX-License-Identifier: MIT
"""`verify --repair`: a clean copy of what can be read, which never says more than the original, and says what it lacks."""

import json
import lzma
import random
import shutil
import stat
from pathlib import Path

import dual
import pytest
import vtf

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "v1"
WHOLE, LACKS_SOMETHING, REFUSED = 0, 1, 2
MAGIC = b"\xb6\x56\x46\xe9"


def repaired(original, out):
    return dual.call("verify", "--repair", out, original)


def events_of(path):
    return dual.call("dump", "--json", "-v", path).stdout.splitlines()


def devices_of(path):
    return json.loads(dual.call("report", "--json", path).stdout)["devices"]


def peaks_of(path):
    return [device[of]["peak_bytes"] for device in devices_of(path) for of in ("tensor", "reserved", "driver")]


def check_copy(original, out, status, verdict=None):
    done = repaired(original, out)
    assert done.returncode == status, done.stderr
    assert events_of(out) == events_of(original)
    assert dual.call("verify", out).returncode == (status if verdict is None else verdict)
    trace = dual.assert_same(out)  # the second reader agrees
    assert not trace.damage
    assert dual.call("report", out).returncode == 0
    return trace


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.vtr")))
def test_goldens(tmp_path, name):
    original = Path(shutil.copy(GOLDEN / f"{name}.vtr", tmp_path))
    ring = GOLDEN / f"{name}.ring.xz"
    if ring.exists():
        (tmp_path / f"{name}.ring").write_bytes(lzma.decompress(ring.read_bytes()))
    status = LACKS_SOMETHING if name in ("cut", "damaged") else WHOLE
    verdict = LACKS_SOMETHING if name == "hurried" else status  # it lacks nothing that the original has
    trace = check_copy(original, tmp_path / "copy.vtr", status, verdict)
    assert trace.joined == 0
    assert devices_of(tmp_path / "copy.vtr") == devices_of(original)
    again = tmp_path / "again.vtr"
    assert repaired(tmp_path / "copy.vtr", again).returncode == WHOLE
    assert events_of(again) == events_of(tmp_path / "copy.vtr")
    assert dual.call("verify", again).returncode == dual.call("verify", tmp_path / "copy.vtr").returncode


def frames(data):
    """Where frames begin."""
    at = data.find(MAGIC)
    while at >= 0:
        yield at
        at = data.find(MAGIC, at + 4)


@pytest.mark.parametrize("seed", range(25))
def test_damage_anywhere(tmp_path, seed):
    """Bytes changed, left out and put in; frames left out, twice, and in another order."""
    chance = random.Random(seed)
    data = bytearray((GOLDEN / "training.vtr").read_bytes())
    places = [*frames(data), len(data)]
    for _ in range(chance.randint(1, 3)):
        at, (first, second) = chance.randrange(places[0], len(data)), sorted(chance.sample(places, 2))
        how = chance.randrange(5)
        if how == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            del data[at : at + chance.randint(1, 3000)]
        elif how == 2:
            data[at:at] = chance.randbytes(chance.randint(1, 100))
        elif how == 3:
            del data[first:second]
        else:
            data[second:second] = data[first:second]
        if len(data) <= places[0]:
            break
    original = tmp_path / "broken.vtr"
    original.write_bytes(data)
    check_copy(original, tmp_path / "copy.vtr", LACKS_SOMETHING)
    assert not any(device["exact"] for device in devices_of(tmp_path / "copy.vtr"))
    most = peaks_of(GOLDEN / "training.vtr")
    assert all(peak <= of_whole for peak, of_whole in zip(peaks_of(tmp_path / "copy.vtr"), most))


def test_a_folder(tmp_path):
    (tmp_path / "job.vtr").mkdir()
    shutil.copy(GOLDEN / "training.vtr", tmp_path / "job.vtr" / "golden.1.1.vtr")
    shutil.copy(GOLDEN / "damaged.vtr", tmp_path / "job.vtr" / "golden.2.2.vtr")
    (tmp_path / "job.vtr" / "golden.3.3.vtr").write_bytes(b"no trace")
    (tmp_path / "job.vtr" / "job").write_text("4711\n")
    out = tmp_path / "out.vtr"
    done = repaired(tmp_path / "job.vtr", out)
    assert done.returncode == LACKS_SOMETHING
    assert "golden.2.2.vtr' is not whole" in done.stderr and "golden.3.3.vtr'" in done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["golden.1.1.vtr", "golden.2.2.vtr", "job"]
    assert (out / "job").read_text() == "4711\n"
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()} == {0o600}
    verdicts = json.loads(dual.call("verify", "--json", out).stdout)["traces"]
    assert [verdict["verdict"] for verdict in verdicts] == ["whole", "incomplete"]


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "kept.vtr").write_text("mine")
    (tmp_path / "link.vtr").symlink_to(tmp_path / "elsewhere")
    for name in ("kept.vtr", "link.vtr", "missing/out.vtr"):
        done = repaired(GOLDEN / "damaged.vtr", tmp_path / name)
        assert done.returncode == REFUSED and name in done.stderr
    assert (tmp_path / "kept.vtr").read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()


def test_what_is_no_recording(tmp_path):
    (tmp_path / "x.vtr").write_bytes(b"no trace")
    done = repaired(tmp_path / "x.vtr", tmp_path / "out.vtr")
    assert done.returncode == REFUSED and "nothing of" in done.stderr
    assert not (tmp_path / "out.vtr").exists()


def test_the_copys_json(tmp_path):
    done = dual.call("verify", "--json", "--repair", tmp_path / "out.vtr", GOLDEN / "damaged.vtr")
    assert json.loads(done.stdout) == {
        "schema": "vramtrace/repair/1",
        "path": str(GOLDEN / "damaged.vtr"),
        "output": str(tmp_path / "out.vtr"),
        "traces": 1,
        "not_whole": 1,
    }


def test_the_second_reader_knows_what_was_given_up(tmp_path):
    repaired(GOLDEN / "damaged.vtr", tmp_path / "copy.vtr")
    trace, original = vtf.read(tmp_path / "copy.vtr"), vtf.read(GOLDEN / "damaged.vtr")
    assert (len(trace.events), trace.lost) == (len(original.events), original.lost)
    assert original.damage and not trace.damage

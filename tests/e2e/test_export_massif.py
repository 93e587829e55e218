# SPDX-License-Identifier: MIT
"""`export --format massif`, read by Valgrind's ms_print."""

import re
import subprocess

from exports import exported, job, long, ranks, two  # noqa: F401: fixtures

ROW = re.compile(r"^ *(\d+) +([\d,]+) +([\d,]+) +([\d,]+) +0 +0$")


def ms_print(path):
    """What it prints; it ends with an error where it does not understand the file."""
    done = subprocess.run(["ms_print", path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def number(text):
    return int(text.replace(",", ""))


def moments(text):
    """[(time in ms, bytes held, bytes at the top of the tree or None)] of what was printed."""
    found = []
    for line in text.splitlines():
        row, top = ROW.match(line), re.match(r"^\d+\.\d+% \(([\d,]+)B\) \(GPU memory", line)
        if row:
            found.append((number(row[2]), number(row[3]), None))
        elif top:
            found[-1] = (*found[-1][:2], number(top[1]))
    return found


def check(vramtrace, path, output, *options):
    (device,) = vramtrace.json("peak", *options, path)["devices"]
    text = ms_print(exported(vramtrace, "massif", path, output, *options))
    found = moments(text)
    assert "(peak)" in text and max(held for _, held, _ in found) == device["bytes"]
    assert [time for time, _, _ in found] == sorted(time for time, _, _ in found)
    assert all(tree in (None, held) for _, held, tree in found)
    (end,) = vramtrace.json("peak", "--at", "end", *options, path)["devices"]
    assert found[-1][1:] == (end["bytes"], end["bytes"])
    return text, found


def test_a_job(vramtrace, job, tmp_path):
    text, found = check(vramtrace, job, tmp_path / "massif.out")
    assert len(found) > 10 and sum(tree is not None for _, _, tree in found) >= 3
    assert re.search(r"->\d+\.\d+% \([\d,]+B\) 0x[0-9A-F]+: .*\(gpt.py:\d+\)", text)


def nodes(lines, at):
    """Check a node of the file, whose children never have more than it; returns the line after it."""
    children, held = map(int, re.match(r" *n(\d+): (\d+) ", lines[at]).groups())
    following, total = at + 1, 0
    for _ in range(children):
        total += int(re.match(r" *n\d+: (\d+) ", lines[following])[1])
        following = nodes(lines, following)
    assert total <= held
    return following


def test_trees(vramtrace, job, tmp_path):
    lines = exported(vramtrace, "massif", job, tmp_path / "massif.out").read_text().splitlines()
    trees = [i + 1 for i, line in enumerate(lines) if line in ("heap_tree=detailed", "heap_tree=peak")]
    for tree in trees:
        after = nodes(lines, tree)
        assert after == len(lines) or lines[after].startswith("#")


def test_many_events(vramtrace, long, tmp_path):
    """As many moments as of a short job, at most."""
    _, found = check(vramtrace, long, tmp_path / "massif.out")
    assert 64 <= len(found) <= 140 and 4 <= sum(tree is not None for _, _, tree in found) <= 10


def test_one_device(vramtrace, two, tmp_path):
    done = vramtrace.call("export", "-f", "massif", two)
    assert done.returncode == 2 and "--device" in done.stderr and not done.stdout
    peaks = [device["bytes"] for device in vramtrace.json("peak", two)["devices"]]
    for device, peak in enumerate(peaks):
        output = exported(vramtrace, "massif", two, tmp_path / f"{device}.out", "--device", str(device))
        assert max(held for _, held, _ in moments(ms_print(output))) == peak


def test_archive(vramtrace, ranks, tmp_path):
    archive = exported(vramtrace, "massif", ranks, tmp_path / "ranks.tar", "--split")
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path], check=True)
    peaks = [device["bytes"] for device in vramtrace.json("peak", ranks)["devices"]]
    files = sorted(tmp_path.glob("rank-*.massif.out"))
    assert [max(held for _, held, _ in moments(ms_print(file))) for file in files] == peaks

# SPDX-License-Identifier: MIT
"""`leaks` names the line that allocated what survives, in Python and in C, and counts it to the byte."""

import re

from harness import EXAMPLES, TREE, WITH_NAMES, python


def line_of(path, text):
    """The number of the one line of a file that contains `text`."""
    (number,) = [number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line]
    return number


def test_leak_loss_list(vramtrace, recorded):
    done = recorded("leak_loss_list.py")
    assert done.status == 0, done.stderr
    count, size = map(int, re.fullmatch(r"kept (\d+) tensors, (\d+) bytes\n", done.stdout).groups())
    source = EXAMPLES / "leak_loss_list.py"
    allocated = line_of(source, "loss = functional.cross_entropy")
    assert allocated != line_of(source, "losses.append")

    leaks = vramtrace.json("leaks", done.path)
    assert leaks["schema"] == "vramtrace/leaks/2"
    site = {"file": str(source), "line": allocated, "function": "train"}
    (losses,) = [group for group in leaks["groups"] if group["site"] == site]
    assert (losses["count"], losses["bytes"]) == (count, size)
    (device,) = vramtrace.json("report", done.path)["devices"]
    assert sum(group["bytes"] for group in leaks["groups"]) == device["tensor"]["live_at_end_bytes"]

    text = vramtrace.call("leaks", done.path).stdout
    assert re.search(rf"allocated at \S*leak_loss_list.py:{allocated} in train", text)


def test_line_that_lets_go_ends_the_growth(vramtrace, tmp_path):
    """README shows what is printed of the growth; the program with that line runs to its end."""
    command = python("leak_loss_list.py", "--steps", "1000")
    options = ("--simulate-capacity", "1GiB")
    done = vramtrace.record(tmp_path / "leak.vtr", command, options=options, env=WITH_NAMES)
    assert done.status == 1 and "OutOfMemoryError" in done.stderr
    # How many censuses there were is a matter of time.
    text = [line for line in vramtrace.call("leaks", done.path).stdout.splitlines() if "over time it had" not in line]
    lines = text[4:8]
    assert any("kept by losses, a list of " in line for line in lines)
    shown = (TREE / "README.md").read_text().partition("$ vramtrace leaks leak.vtr | sed -n 5,8p\n")[2].splitlines()[:4]
    assert [line.strip() for line in shown] == [re.sub(r" \S*/examples/", " examples/", line.strip()) for line in lines]
    code = re.fullmatch(r" +let go by (\S+) in place of x", lines[3])[1]
    source = (EXAMPLES / "leak_loss_list.py").read_text()
    assert source.count("losses.append(loss)") == 1
    mended = tmp_path / "mended.py"
    mended.write_text(source.replace("losses.append(loss)", code.replace("x", "loss")))
    done = vramtrace.record(tmp_path / "mended.vtr", [*python(mended), "--steps", "1000"], options=options, env=WITH_NAMES)
    assert done.status == 0, done.stderr
    assert vramtrace.json("leaks", done.path)["findings"] == []


def test_leak_c(vramtrace, compile_c, cuda_flags, tmp_path):
    source = EXAMPLES / "leak.c"
    program = compile_c(source, "-fno-inline", *cuda_flags)
    done = vramtrace.record(tmp_path / "leak.vtr", [program])
    assert (done.status, done.stderr) == (0, "")
    count, size = map(int, re.fullmatch(r"leaked (\d+) blocks, (\d+) bytes\n", done.stdout).groups())

    (group,) = vramtrace.json("leaks", done.path)["groups"]
    assert (group["count"], group["bytes"]) == (count, size)
    lines = [line_of(source, text) for text in ("= cudaMalloc(&p", "= device_alloc(HISTORY", "if (remember_frame(")]
    assert group["site"] == {"file": str(source), "line": lines[0], "function": "device_alloc"}
    own = [frame for frame in group["frames"] if frame["file"] == str(source)]
    assert [frame["function"] for frame in own] == ["device_alloc", "remember_frame", "main"]
    assert [frame["line"] for frame in own] == lines

    text = vramtrace.call("leaks", done.path).stdout
    assert re.search(rf"allocated at \S*leak.c:{lines[0]} in device_alloc", text)

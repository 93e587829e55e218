# SPDX-License-Identifier: MIT
"""Names of blocks and their keepers, against what the program itself says (jobs/names.py), by a real census."""

import pytest

from harness import WITH_NAMES, python


@pytest.fixture(scope="module")
def job(recorded):
    recording = recorded("names.py")
    assert recording.status == 0, recording.stderr
    return recording


def test_each_block_has_its_name(vramtrace, job):
    blocks = vramtrace.json("peak", "--by", "block", "--at", "oom", job.path)["devices"][0]["blocks"]
    said = {int(block["address"], 16): (block["name"], block["category"]) for block in blocks}
    for name, (address, category) in job.ledger.items():
        assert said[address][0] == name, address
        assert category in (None, said[address][1]), name


def groups(vramtrace, job):
    device = vramtrace.json("peak", "--by", "name", "--at", "oom", job.path)["devices"][0]
    return device, {group["name"]: group for group in device["groups"]}


def test_blocks_of_one_pattern_are_one_group(vramtrace, job):
    device, named = groups(vramtrace, job)
    assert named["model.layers.*.up.weight"]["blocks"] == 3
    assert named["exp_avg of model.layers.*.up.weight"]["category"] == "optimizer_state"
    assert named["model.layers.*.scale"]["category"] == "buffer"
    assert named["self.history[*]"]["blocks"] == 6
    assert named["Trainer.cache['layers.*.kv']"]["blocks"] == 6
    assert named["self.recent[*]"]["blocks"] == 4
    assert named["in a reference cycle (Node.data)"]["blocks"] == 6
    assert named["in a reference cycle (function with order in its closure)"]["blocks"] == 6
    assert sum(group["bytes"] for group in device["groups"]) == device["bytes"]


def test_keepers(vramtrace, job):
    named = groups(vramtrace, job)[1]
    history = named["self.history[*]"]["keepers"][0]
    assert (history["name"], history["kind"], history["length"], history["root"]) == ("self.history", "list", 6, "local")
    assert (history["function"], history["file"].endswith("names.py")) == ("Trainer.fit", True)
    cache = named["Trainer.cache['layers.*.kv']"]["keepers"][0]
    assert (cache["name"], cache["kind"], cache["root"]) == ("Trainer.cache", "dict", "class")
    assert named["seen['output']"]["keepers"][0]["root"] in ("local", "closure")
    assert named["in a reference cycle (Node.data)"]["keepers"][0]["root"] == "cycle"


def test_report_and_info_tell_of_the_census(vramtrace, job):
    device = vramtrace.json("report", job.path)["devices"][0]
    assert device["names"]["censuses"] >= 1
    assert device["names"]["stall_ns"] > 0
    assert 0 < device["names"]["named_bytes_at_peak"] <= device["tensor"]["peak_bytes"]
    censuses = vramtrace.json("info", job.path)["process_list"][0]["censuses"]
    assert "oom" in [census["reason"] for census in censuses]
    assert all(census["whole"] for census in censuses)


def test_an_anonymous_copy_has_the_same_groups(vramtrace, job, tmp_path):
    copy = tmp_path / "copy.vtr"
    assert vramtrace.call("anonymize", job.path, copy).returncode == 0
    one, _ = groups(vramtrace, job)
    device = vramtrace.json("peak", "--by", "name", "--at", "oom", copy)["devices"][0]
    assert sorted((g["bytes"], g["blocks"], g["category"]) for g in device["groups"]) == sorted(
        (g["bytes"], g["blocks"], g["category"]) for g in one["groups"])
    strings = vramtrace.call("info", "--strings", copy).stdout
    for word in ("history", "Trainer", "names.py", "recent"):
        assert word not in strings


def test_names_can_be_switched_off(vramtrace, tmp_path):
    recording = vramtrace.record(tmp_path / "off.vtr", python("names.py"), env={"VRAMTRACE_NAMES": "off"})
    assert not list(recording.path.glob("*.names"))
    report = vramtrace.json("report", recording.path)["devices"][0]
    assert "names" not in report and "buffer" not in report["categories_at_peak"]


def test_what_keeps_segments_has_its_name(vramtrace, record):
    """A list of small blocks cuts up what larger ones leave: frag tells which list."""
    run = record("oom/mixed.py", "windows", options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    failure = vramtrace.json("frag", run.path)["devices"][0]["moments"]["failure"]
    (blocker,) = failure["blockers"]
    assert blocker["name"] == "kept[*]"
    assert blocker["keepers"][0] == blocker["keepers"][0] | {"name": "kept", "kind": "list", "root": "local", "function": "windows"}
    assert "the first is named kept[*], kept by kept, a list of " in vramtrace.call("frag", run.path).stdout


# ---- what moved ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def versions(recorded):
    both = [recorded("names_moved.py", version) for version in ("before", "after")]
    assert [version.status for version in both] == [0, 0], both[0].stderr + both[1].stderr
    return [version.path for version in both]


def bank_of(vramtrace, before, after):
    """What diff says of the list's tensors, which another function makes in each version."""
    (device,) = vramtrace.json("diff", before, after)["devices"]
    found = [row for row in device["stacks"] if "self.bank[*]" in ((row["before"] or {}).get("name"), (row["after"] or {}).get("name"))]
    return sorted(found, key=lambda row: -row["after_bytes"])


def test_a_stack_that_moved_is_known_by_its_name(vramtrace, versions):
    (bank,) = bank_of(vramtrace, *versions)
    assert (bank["before"]["function"], bank["after"]["function"]) == ("Trainer.fill", "Trainer.stock_up.<locals>.rows.<locals>.<listcomp>")
    assert (bank["before_bytes"], bank["after_bytes"]) == (40 << 20, 60 << 20)
    keeper = bank["after"]["keepers"][0]
    assert (keeper["name"], keeper["kind"], keeper["length"], keeper["function"]) == ("self.bank", "list", 15, "Trainer.fit")
    page = vramtrace.call("diff", *versions).stdout
    assert "named self.bank[*], kept by self.bank, a list of 15, in Trainer.fit()" in " ".join(page.split())


def test_baselines_have_names(vramtrace, versions, tmp_path):
    baseline = tmp_path / "memory-baseline.toml"
    assert vramtrace.call("baseline", "-o", baseline, versions[0]).returncode == 0
    assert 'name = "self.bank[*]"\nname_in = "Trainer.fit"\n' in baseline.read_text()
    (bank,) = bank_of(vramtrace, baseline, versions[1])
    assert (bank["before"]["name"], bank["before_bytes"], bank["after_bytes"]) == ("self.bank[*]", 40 << 20, 60 << 20)
    checked = vramtrace.call("check", "--baseline", baseline, versions[1])
    assert checked.returncode == 1 and "+20.0 MiB 40.0 MiB 60.0 MiB" in " ".join(checked.stdout.split())
    assert "named self.bank[*], kept by self.bank, a list of 15" in " ".join(checked.stdout.split())
    # One that was made without names compares stacks alone.
    lines = [line for line in baseline.read_text().splitlines(True) if not line.startswith("name_in") and "bank" not in line]
    baseline.write_text("".join(lines))
    gone = bank_of(vramtrace, baseline, versions[1])
    assert [(row["before"], row["after_bytes"]) for row in gone] == [(None, 60 << 20)]

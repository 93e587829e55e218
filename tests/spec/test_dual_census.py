# SPDX-License-Identifier: MIT
"""A golden recording with two censuses, the second one cut: vramtrace and the second reader find the same in them."""

import json
import re
import shutil

import pytest

import dual
import vtf
import vtf_census

GOLDEN = dual.GOLDEN / "v1" / "named.vtr"
STEM = GOLDEN.with_suffix("")
NODES_OF_THE_SUM = 3 * 3 + 3 * 1 + 2  # addition, sum, addmm; the weight transposed; two leaves
BLOCK = 512  # what the allocator hands out is a multiple of it
CUT_BY = {vtf_census.NO_MEMORY: "memory", vtf_census.NO_TIME: "time", vtf_census.FAULT: "class", 0: "end"}
NAMES = {
    "main().model.weight": ("model.weight", "parameter"),
    "main().model.bias": ("model.bias", "parameter"),
    "main().model.weight.grad": ("model.weight.grad", "gradient"),
    "main().model.bias.grad": ("model.bias.grad", "gradient"),
    "main().history[0]": ("history[0]", None),
    "main().history[1]": ("history[1]", None),
    "Cache.kept['key']": ("Cache.kept['key']", None),
    "Cache.kept[7]": ("Cache.kept[7]", None),
    "main().later": ("later", None),
}


def test_nodes_are_counted():
    """Of the sum its own node, and of each step an addition, a sum, the layer, its transposed weight; weight and bias are shared."""
    census = vtf_census.Census(dual.GOLDEN / "v1" / "nodes.1.names")
    nodes = {census.name(one.object): one.nodes for one in census.tensors}
    assert nodes["main().total"] == NODES_OF_THE_SUM and nodes["main().view"] == 2
    assert nodes["main().model.weight"] == 0


def test_views_tell_what_is_their_own():
    """A row of 128 numbers of four bytes, of sixteen; 4 x 32 numbers of two bytes. Older censuses do not tell."""
    census = vtf_census.Census(dual.GOLDEN / "v1" / "views.1.names")
    own = {census.name(one.object): (one.own_bytes, one.bytes) for one in census.tensors}
    assert own["main().rows[1]"] == (128 * 4, 16 * 128 * 4) and own["main().whole"] == (4 * 32 * 2, 4 * 32 * 2)
    older = vtf_census.Census(dual.GOLDEN / "v1" / "nodes.1.names")
    assert {one.own_bytes for one in older.tensors} == {0}


@pytest.fixture(scope="module")
def both():
    return [vtf_census.Census(f"{STEM}.{number}.names") for number in (1, 2)]


def said(*arguments):
    return json.loads(dual.call(*arguments).stdout)


def alive(trace, census):
    """The blocks that are allocated at its time: bytes by address."""
    found = {}
    for event in trace.events:
        if trace.time_ns(event) > census.time_ns - trace.header.monotonic:
            break
        if event.name == "tensor_alloc":
            found[event.address] = event.size
        elif event.name == "tensor_free":
            freed = next(one for one in trace.events if one.ordinal == event.alloc)
            del found[freed.address]
    return found


def check_info(path, censuses):
    (process,) = said("info", "--json", path)["process_list"]
    assert [one["number"] for one in process["censuses"]] == [int(one.path.suffixes[-2][1:]) for one in censuses]
    start = vtf.read(path).header.monotonic
    for one, census in zip(process["censuses"], censuses):
        whole = bool(census.flags & vtf_census.WHOLE)
        assert one["reason"] == vtf_census.WHY[census.why]
        assert one["time_ns"] == census.time_ns - start
        assert (one["device"], one["allocated_bytes"]) == (census.device, census.allocated)
        assert (one["objects"], one["tensors"]) == (census.nr_objects, len(census.tensors))
        assert one["whole"] == whole
        assert one["cut_by"] == (None if whole else CUT_BY[census.flags & ~vtf_census.COLLECTOR])


def test_what_they_are_for(both):
    """One is whole, of the other, which took several frames, objects are here whose tensors are not."""
    first, second = both
    assert first.flags == vtf_census.WHOLE | vtf_census.COLLECTOR and first.trace.end
    assert not second.flags and not second.trace.end and second.trace.cut_bytes
    assert len(first.tensors) == first.nr_tensors and not second.nr_tensors
    assert len(second.objects) > len(second.tensors) > len(first.tensors)
    assert {name for names in first.names().values() for name in names} == {*NAMES} - {"main().later"}
    assert first.names().keys() - second.names().keys()


def test_info_agrees(both):
    check_info(GOLDEN, both)


def test_names_agree(both):
    """
    Each block that is live when memory runs out for the last time is called what the nearest census that knows it calls
    it, as the second reader does by address; and is as large as the census says its storage is.
    """
    (device,) = said("peak", "--by", "block", "--at", "oom", "--json", GOLDEN)["devices"]
    trace, known, sizes = vtf.read(GOLDEN), {}, {}
    for census in both:
        known |= {address: names for address, names in census.names().items()}
        sizes |= {tensor.address: tensor.bytes for tensor in census.tensors}
    blocks = {int(block["address"], 16): block for block in device["blocks"]}
    live = alive(trace, both[1])
    assert {address: block["bytes"] for address, block in blocks.items()} == live
    for address, block in blocks.items():
        names = {NAMES[name] for name in known.get(address, ()) if name in NAMES}
        if not names:
            assert block["name"] is None, block
            continue
        ((name, category),) = names
        assert block["name"] == name
        assert category in (None, block["category"])
        assert -(-sizes[address] // BLOCK) * BLOCK == block["bytes"]
    assert {name for name, _ in NAMES.values()} == {block["name"] for block in blocks.values()} - {None}


def test_groups_agree(both):
    """Blocks of one pattern, numbers as '*', are one group of as many bytes."""
    (device,) = said("peak", "--by", "name", "--at", "oom", "--json", GOLDEN)["devices"]
    known = {}
    for census in both:
        known |= census.names()
    found = {}
    for address, size in alive(vtf.read(GOLDEN), both[1]).items():
        names = [NAMES[name][0] for name in known.get(address, ()) if name in NAMES]
        pattern = re.sub(r"\[\d+\]", "[*]", names[0]) if names else None
        found.setdefault(pattern, []).append((names[0] if names else None, size))
    wanted = {  # a block that is alone goes by its name
        of[0][0] if len(of) == 1 else pattern: (len(of), sum(size for _, size in of)) for pattern, of in found.items()
    }
    groups = {}
    for group in device["groups"]:
        count, total = groups.get(group["name"], (0, 0))
        groups[group["name"]] = count + group["blocks"], total + group["bytes"]
    assert groups == wanted


@pytest.mark.parametrize("number", [1, 2])
def test_cut_anywhere(tmp_path, both, number):
    """However much of a census is there, both take the same of it, or nothing."""
    path = tmp_path / GOLDEN.name
    shutil.copy(GOLDEN, path)
    census = tmp_path / f"named.{number}.names"
    whole = both[number - 1].path.read_bytes()
    for size in range(0, len(whole) + 1, max(1, len(whole) // 30)):
        census.write_bytes(whole[:size])
        try:
            check_info(path, [vtf_census.Census(census)])
        except vtf.Refused:
            (process,) = said("info", "--json", path)["process_list"]
            assert not process["censuses"], size
        done = dual.call("peak", "--by", "name", "--at", "oom", "--json", path)
        assert done.returncode == 0 and json.loads(done.stdout)["devices"], size


@pytest.mark.parametrize("number", [1, 2])
def test_a_wrong_byte_anywhere(tmp_path, both, number):
    """A frame that is damaged is left out by both: ids have gaps, and what hangs on them is gone."""
    path = tmp_path / GOLDEN.name
    shutil.copy(GOLDEN, path)
    census = tmp_path / f"named.{number}.names"
    whole = both[number - 1].path.read_bytes()
    for place in range(0, len(whole), len(whole) // 20):
        data = bytearray(whole)
        data[place] ^= 0x10
        census.write_bytes(data)
        done = dual.call("peak", "--by", "name", "--at", "oom", "--json", path)
        assert done.returncode == 0 and json.loads(done.stdout)["devices"], place
        (process,) = said("info", "--json", path)["process_list"]
        try:
            second = vtf_census.Census(census)
        except vtf.Refused:
            assert not process["censuses"], place
            continue
        (one,) = process["censuses"]
        assert one["tensors"] == sum(there(second, tensor.object) for tensor in second.tensors), place
        assert one["whole"] == bool(second.flags & vtf_census.WHOLE), place


def there(census, number):
    """Whether all of the way to an object is known."""
    while number in census.objects:
        number = census.objects[number].parent
    return not number

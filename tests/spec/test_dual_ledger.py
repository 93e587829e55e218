# SPDX-License-Identifier: MIT
"""
The rules of section 6 of FORMAT.md on events that no program has: drawn at random over few addresses, so that blocks
are replaced, references counted, frees refused and mappings ended in every order. Both readers must find the same.
"""

import json
import random

import pytest

import dual
import vtf
import vtf_ledger
from remake import ring_file
from test_dual_damage import KILLED, RING
from vtf import KIND, Header

NR_THREADS, NR_EVENTS, NR_ADDRESSES, UNIT = 3, 600, 5, 4096
CHOICES = {
    "tensor_alloc": 6, "tensor_free": 5, "tensor_oom": 1, "driver_alloc": 12, "driver_free": 12, "free_failed": 6,
    "handle_retain": 3, "map": 8, "unmap": 6, "reset": 1, "pool_info": 1,
}  # fmt: skip
SPACES = [*range(14), 4, 4, 4, 7, 7]


def drawn(rng, start, apart):
    """
    Rings of random events, one for each thread, in the order of their times. `apart`: no two devices share an address,
    as on any machine.
    """
    rings, orders, latest = [[] for _ in range(NR_THREADS)], {}, {}
    for number in range(NR_EVENTS):
        name = rng.choices(list(CHOICES), CHOICES.values())[0]
        thread, device = rng.randrange(NR_THREADS), rng.randrange(2)
        address, size = UNIT * rng.randint(1, NR_ADDRESSES), UNIT * rng.randint(1, 3)
        if name == "free_failed" and rng.random() < 0.8:  # as a rule it is about the latest free
            address = latest.get(thread, address)
        if name in ("driver_free", "unmap"):
            latest[thread] = address
        aux = {"map": UNIT * rng.randint(1, NR_ADDRESSES), "free_failed": 1}.get(name, rng.randrange(2))
        domain = device if name.startswith("tensor") else 64
        orders[domain] = orders.get(domain, -1) + 1
        flags = rng.choice(SPACES) if name in ("driver_alloc", "driver_free") else 0
        if apart and name.startswith("tensor"):
            address |= device << 40
        if name == "pool_info":
            address = rng.choice((0, address))
        rings[thread].append(dict(time=start + 2048 * number, address=address, size=size, order=orders[domain], aux=aux,
                                  kind=KIND[name], device=device, flags=flags))  # fmt: skip
    return rings


def made(tmp_path, seed, apart=False):
    """A trace whose events are all in its ring file, as the second reader has it, and its path."""
    header = Header(KILLED)
    path = tmp_path / "made.vtr"
    path.write_bytes(KILLED[: header.length])
    rings = drawn(random.Random(seed), header.monotonic + 2048, apart)
    (tmp_path / "made.ring").write_bytes(ring_file(RING, rings))
    return vtf.read(path), path


@pytest.mark.parametrize("seed", range(15))
def test_ledgers_agree(tmp_path, seed):
    trace = dual.assert_same(made(tmp_path, seed)[1])
    assert len(trace.events) == NR_EVENTS and not trace.problems


def check_report(trace, path):
    """What the report counts by books of its own; a reset clears what is reserved there, and not in the ledger."""
    report = json.loads(dual.call("report", "--json", path).stdout)
    counted = dual.Counted(trace)
    (process,) = report["process_list"]
    assert process["pinned"]["peak_bytes"] == counted.peaks.get((vtf_ledger.PINNED, 0), 0)
    for device in report["devices"]:
        for name in ("tensor", "driver"):
            key = dual.QUANTITIES[name], device["device"]
            figures = device[name]["peak_bytes"], device[name]["live_at_end_bytes"]
            assert figures == (counted.peaks.get(key, 0), counted.now.get(key, 0)), (name, key)


@pytest.mark.parametrize("seed", range(15))
def test_reports_agree(tmp_path, seed):
    check_report(*made(tmp_path, seed, apart=True))

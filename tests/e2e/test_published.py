# SPDX-License-Identifier: MIT
"""Peaks that others measured on real GPUs come out equal, to the last digit, on the simulated GPU of the same kind.

published/published.json holds the figures with their sources, published/*.py the computations of them.
"""

import functools
import json
import struct
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent / "published"
FIGURES = {figure["name"]: figure for figure in json.loads((FOLDER / "published.json").read_text())["figures"]}


def marked(name, *more):
    """Parameters of a test about one figure; a figure that another one resembles is for `make test-all`."""
    return pytest.param(name, *more, marks=[pytest.mark.slow] if FIGURES[name].get("slow") else [])


ROWS = [marked(name, size) for name, figure in FIGURES.items() for size in figure["peak_mib"]]


def float32(number):
    """The published figures passed through float32, whose steps are 512 bytes below 8 GiB and 8 KiB at 64 GiB."""
    return struct.unpack("f", struct.pack("f", number))[0]


@pytest.fixture(scope="module")
def measured(vramtrace, tmp_path_factory):
    """measured(name): the recording of one figure's script, run at all of its sizes."""

    @functools.cache
    def measure(name):
        figure = FIGURES[name]
        program = [sys.executable, FOLDER / figure["script"], *figure["arguments"], *figure["peak_mib"]]
        return vramtrace.record(tmp_path_factory.mktemp(name) / "job.vtr", program, gpu=figure["profile"])

    return measure


@pytest.mark.parametrize("name, size", ROWS)
def test_peak_equals_published(measured, name, size):
    done = measured(name)
    assert done.status == 0, done.stderr
    assert float32(done.ledger["bytes"][size] / 2**20) == FIGURES[name]["peak_mib"][size]


@pytest.mark.parametrize("name", [marked(name) for name in FIGURES])
def test_report_shows_the_measured_peak(vramtrace, measured, name):
    """The recording tells the same peak as the allocator did, so the report repeats the published figure."""
    done = measured(name)
    (device,) = vramtrace.json("report", done.path)["devices"]
    assert device["tensor"]["peak_bytes"] == done.ledger["peak"]

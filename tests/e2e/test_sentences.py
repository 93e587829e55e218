# SPDX-License-Identifier: MIT
"""The table of sentences and the code that says them: no fact is missing, none is for nothing, and none is said twice."""

import re
import sys

from harness import TREE

sys.path.insert(0, str(TREE / "tests"))

import sentences  # noqa: E402


def test_facts_are_those_of_the_sentence():
    rows = sentences.table()
    assert rows
    for path, name, here, exactly in sentences.uses():
        must, may = sentences.keys(rows[name])
        assert must <= set(here), f"{path.name}: {name} lacks {must - set(here)}"
        if exactly:
            assert set(here) <= must | may, f"{path.name}: {name} has no {set(here) - must - may}"


def test_each_sentence_is_said():
    assert {name for _, name, _, _ in sentences.uses()} == set(sentences.table())


def test_each_is_there_once():
    rows = sentences.table()
    assert sorted(set(rows.values())) == sorted(rows.values())
    names = re.findall(r"^SENTENCE\((\w+)", sentences.TABLE.read_text(), re.M)
    assert names == list(rows)

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


# Where findings are made, and the pages that show them. What is left there is no sentence of a finding: errors, labels, names.
ROOMS = ["advice", "errortexts", "findings", "growth", "names", "oom", "patterns"]
PAGES = [
    "checkpages/print_ruling", "pages/print_advice", "pages/print_autopsy", "pages/print_fit", "pages/print_frag", "pages/print_growth",
    "pages/print_names", "pages/print_oom", "pages/print_parts", "pages/print_stepgrowth", "pages/stepgrowth_words",
]  # fmt: skip
OTHER_WORDS = {
    "advice.c": ["no advice about GPU %", " in '%s': the step of its peak has more than %u blocks"],
    "advice_optimizer.c": ['\\"offload_optimizer\\": {\\"device\\": \\"cpu\\"}'],
    "names.c": ["it is of another process", " (nor %zu more such files)", "cannot read '%s': %s%s; the names in it are missing"],
    "objectname.c": ["a registered method of ", "in a reference cycle (", "held outside of Python (", " in its closure", " that is handled"],
    "print_advice.c": [" of what is reserved"],
    "print_autopsy.c": [" of those kept", "from the driver", "%8s   %s would have fitted at most", "Most in modules: ", "asked for at",
                        "did not go on"],
    "print_frag.c": ["  the first is ", "at that peak", "at the failure"],
    "print_names.c": ["(%zu more group%s: --top N)", "(no census of the program's objects was taken: nothing tells their names)"],
    "print_oom.c": ["%s%s%s%sout of memory"],
    "print_stepgrowth.c": ["  let go by "],
}  # fmt: skip


def words_of(path):
    """The strings of a C file that read as English: with three words or more."""
    source = re.sub(r"/\*.*?\*/|\b_?[sS]tatic_assert\([^;]*;", "", path.read_text(), flags=re.S)
    strings = re.findall(r'"((?:[^"\\\n]|\\.)*)"', source)
    return [s for s in strings if " " in s.strip() and len(re.findall(r"[A-Za-z]{2,}", s)) >= 3]


def test_findings_have_no_words_beside_the_table():
    paths = [path for room in ROOMS for path in sorted((TREE / "analyzer" / room).glob("*.c"))]
    paths += [TREE / "analyzer" / f"{page}.c" for page in PAGES]
    found = {path.name: words_of(path) for path in paths}
    assert {name: words for name, words in found.items() if words} == OTHER_WORDS

# SPDX-License-Identifier: MIT
"""Every entry point of hooks.def, asked of NVIDIA's own driver library by name, version and flags, ABI by ABI."""

import re
from collections import Counter

from conftest import TREE, same_outcome

HOOKS = (TREE / "libinterpose" / "hooks.def").read_text()
BASES = {
    symbol: base for symbol, base in re.findall(r'^DRIVER\((\w+), "(\w+)",', HOOKS, re.M)
}
ANSWER = re.compile(r"(?P<question>.*[:=]) (?:(?P<number>#\d+) (?P<owner>\w+) (?P<symbol>\S+)|nobody)$")


def answers(text):
    """(question with statuses, number, owner, symbol) of each line; what are no answers have None for three of them."""
    found = []
    for line in text.splitlines():
        match = ANSWER.match(line)
        found.append(match.group("question", "number", "owner", "symbol") if match else (line, None, None, None))
    return found


def base_of(question):
    words = question.split()
    name = words[2].rstrip(":")
    return BASES.get(name, name) if words[1] == "dlsym" else name


def test_every_answer_is_the_recorders_own(driver, compiled, runs):
    """Statuses and the pattern of equal and different addresses are the driver's; every row's answer is our wrapper."""
    plain, recorded = runs.both(driver, compiled("door"))
    same_outcome(plain, recorded)
    assert plain.returncode == 0
    given, ours = answers(plain.stdout), answers(recorded.stdout)
    assert [answer[:2] for answer in given] == [answer[:2] for answer in ours]
    for (question, _, _, symbol), (_, _, owner, wrapper) in zip(given, ours):
        if owner is None:
            continue
        base = base_of(question)
        if base not in BASES.values():
            assert (owner, wrapper) == ("driver", symbol), question
            continue
        assert owner == "ours", question
        if symbol in BASES:
            assert wrapper == symbol, f"{question}: the driver gave {symbol}, the recorder its wrapper of {wrapper}"
        else:  # the driver exports no such name: at least it is one of this base name
            assert BASES[wrapper] == base, question
    rows = {symbol for _, _, _, symbol in given if symbol in BASES}
    assert len(rows) > 95 and Counter(owner for _, _, owner, _ in ours)["ours"] > 10_000


def test_the_private_tables_stay_the_drivers(driver, compiled, runs):
    """cuGetExportTable, cuDriverGetVersion and device identity are never the recorder's."""
    recorded = runs.run(driver, compiled("door"), recorded=True)
    for name in ("cuGetExportTable", "cuDriverGetVersion", "cuDeviceGet"):
        owners = {owner for question, _, owner, _ in answers(recorded.stdout) if f" {name}" in question}
        assert owners - {None} == {"driver"}
    assert not runs.recording.exists()  # nothing was allocated

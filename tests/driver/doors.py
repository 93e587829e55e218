# SPDX-License-Identifier: MIT
"""What programs/door.c prints, plain and under the recorder, compared answer by answer."""

import re
from dataclasses import dataclass, field
from pathlib import Path

HOOKS = (Path(__file__).resolve().parents[2] / "libinterpose" / "hooks.def").read_text()
BASES = dict(re.findall(r'^DRIVER\((\w+), "(\w+)",', HOOKS, re.M))  # symbol -> base name
ANSWER = re.compile(r"(?P<question>.*[:=]) (?:(?P<number>#\d+) (?P<owner>\w+) (?P<symbol>\S+)|nobody)$")


@dataclass
class Found:
    nr_rows: int = 0  # answers that a row of hooks.def stands for
    nr_ours: int = 0  # of these, the recorder's wrapper of the same ABI
    symbols: set = field(default_factory=set)  # rows that the driver exports
    differences: list = field(default_factory=list)


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


def is_the_wrapper(base, symbol, wrapper):
    """Of the driver's exported symbol; where it exports none at that address, at least of one with this base name."""
    return wrapper == symbol if symbol in BASES else BASES.get(wrapper) == base


def compare(plain, recorded):
    """Statuses and the pattern of equal and different addresses must be the driver's own, and every row's answer ours."""
    given, ours = answers(plain), answers(recorded)
    found = Found(symbols={symbol for _, _, _, symbol in given if symbol in BASES})
    if len(given) != len(ours):
        found.differences.append(f"{len(given)} answers without the recorder, {len(ours)} with it")
    for (question, number, _, symbol), (asked, numbered, owner, wrapper) in zip(given, ours):
        if (question, number) != (asked, numbered):
            found.differences.append(f"{question} {number}, recorded: {asked} {numbered}")
        if owner is None or symbol is None:
            continue
        if base_of(question) not in BASES.values():
            if (owner, wrapper) != ("driver", symbol):
                found.differences.append(f"{question} {symbol} is no row, but is answered by {owner} {wrapper}")
            continue
        found.nr_rows += 1
        if owner == "ours" and is_the_wrapper(base_of(question), symbol, wrapper):
            found.nr_ours += 1
        else:
            found.differences.append(f"{question} {symbol} is answered by {owner} {wrapper}")
    return found

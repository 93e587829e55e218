# SPDX-License-Identifier: MIT
"""The table "what programs do" of docs/coverage.md: written from the cases that the coverage tests run.

A *case* is one thing that PyTorch programs do, a job that does it, and how well the simulated GPU carries it. The
cases stand in coverage_core.py, coverage_distributed.py and coverage_models.py; the test_ file of the same name runs
every one of them, so a row without a test cannot be. `python3 tests/e2e/coverage_table.py --write` renews the page,
checks/coverage.sh compares. Needs nothing but Python.
"""

import importlib
import sys
from dataclasses import dataclass, field
from pathlib import Path

EXACT, MODELLED, UNSUPPORTED = "exact", "modelled", "not supported"
GROUPS = {
    "coverage_core": "PyTorch on one GPU",
    "coverage_distributed": "PyTorch on several GPUs",
    "coverage_models": "Libraries on top of PyTorch",
}
TREE = Path(__file__).resolve().parents[2]
PAGE = TREE / "docs" / "coverage.md"
BEGIN, END = "<!-- written by tests/e2e/coverage_table.py -->", "<!-- end -->"


@dataclass(frozen=True)
class Case:
    """One row. `name` is the test's id: lower case, words joined by hyphens, unique in its file."""

    name: str
    what: str  # the row's text: what the program does
    status: str  # EXACT: the ledger equals torch's own; MODELLED: the note says what is a model; UNSUPPORTED: why
    job: str  # the script in jobs/coverage/, and its arguments
    note: str = ""
    slow: bool = False
    options: dict = field(default_factory=dict, hash=False)  # what the test file needs besides: environment, GPUs, ...


def parameters(cases):
    """The cases as arguments of pytest.mark.parametrize, slow ones marked."""
    import pytest

    return [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.slow else []) for case in cases]


def rows(group):
    cases = importlib.import_module(group).CASES
    for case in cases:
        if case.status not in (EXACT, MODELLED, UNSUPPORTED):
            raise SystemExit(f"coverage: {group}: '{case.name}': unknown status '{case.status}'")
        if case.status != EXACT and not case.note:
            raise SystemExit(f"coverage: {group}: '{case.name}' is {case.status}: its note must say what and why")
        script = case.job.split()[0]
        if not (TREE / "tests" / "e2e" / "jobs" / "coverage" / script).exists():
            raise SystemExit(f"coverage: {group}: '{case.name}': no job 'jobs/coverage/{script}'")
        yield f"| {case.what} | {case.status} | `{case.name}`{' (slow)' if case.slow else ''} | {case.note} |"
    names = [case.name for case in cases]
    if len(names) != len(set(names)):
        raise SystemExit(f"coverage: {group}: two cases of one name")


def table():
    """The tables as the page has them, from marker to marker."""
    parts = [BEGIN]
    for group, title in GROUPS.items():
        if not (Path(__file__).parent / f"{group}.py").exists():
            continue
        parts += [f"\n## {title}\n", f"Tests: `tests/e2e/test_{group}.py`.\n", "| what | status | test | note |"]
        parts += ["|---|---|---|---|", *rows(group)]
    return "\n".join([*parts, "", END])


def main(arguments):
    page = PAGE.read_text()
    start, end = page.index(BEGIN), page.index(END) + len(END)
    if arguments == ["--write"]:
        PAGE.write_text(page[:start] + table() + page[end:])
    elif page[start:end] != table():
        raise SystemExit(f"coverage: '{PAGE.name}' differs from the cases: run python3 {sys.argv[0]} --write")
    else:
        print("coverage: the table has the tested cases")


if __name__ == "__main__":
    main(sys.argv[1:])

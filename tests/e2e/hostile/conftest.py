# SPDX-License-Identifier: MIT
"""The table of docs/reliability.md: what each hostile program costs, written from what its test sees.

A test calls reliability(name, program=, ends=, lost=, said=) with figures and words that it has measured and checked. The
row must stand in the page as it is; UPDATE_RELIABILITY=1 writes it there. `name` is the row's own: lower case, words
joined by hyphens. checks/reliability.sh sees that no row is left of a test that has gone.
"""

import fcntl
import os

import pytest

from harness import TREE

PAGE = TREE / "docs" / "reliability.md"
BEGIN, END = "<!-- rows: written by tests/e2e/hostile -->\n", "<!-- end of rows -->\n"


def page_rows(text):
    """The rows of the table by name."""
    body = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    return {line.split("|")[1].strip(" `"): line for line in body.splitlines() if line.startswith("| `")}


def write_row(name, row):
    with open(PAGE, "r+") as page:
        fcntl.flock(page, fcntl.LOCK_EX)
        text = page.read()
        rows = page_rows(text) | {name: row}
        head, tail = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
        table = "| test | the program | how it ends | events lost | what is said |\n|---|---|---|---|---|\n"
        page.seek(0)
        page.write(head + "\n" + table + "".join(rows[key] + "\n" for key in sorted(rows)) + "\n" + tail)
        page.truncate()


@pytest.fixture
def reliability():
    def check(name, *, program, ends, lost, said):
        """One row: what the program does, how it ends beside an untraced run, events lost, the words users read."""
        row = f"| `{name}` | {program} | {ends} | {lost} | {said} |"
        if os.environ.get("UPDATE_RELIABILITY"):
            write_row(name, row)
        assert page_rows(PAGE.read_text()).get(name) == row, "UPDATE_RELIABILITY=1 writes the row anew"

    return check

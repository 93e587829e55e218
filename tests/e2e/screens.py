# SPDX-License-Identifier: MIT
"""First screens as they are printed, kept in screens/: UPDATE_SCREENS=1 writes them anew."""

import os
import re
from pathlib import Path

SCREENS = Path(__file__).parent / "screens"
# What differs from run to run.
MASKS = [
    (r"\b\d[\d.]* (ns|us|ms|s|min|h|d)( \d+ (s|min|h))?(?![\w/])", "TIME"),
    (r"torch \d[\w.+]*", "torch VERSION"),
    (r"[\d,]+ events", "N events"),
]


def as_golden(name, page):
    """A page of at most 24 lines of 80 columns, which is the one in screens/."""
    lines = page.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80, page
    for pattern, mask in MASKS:
        page = re.sub(pattern, mask, page)
    golden = SCREENS / name
    if os.environ.get("UPDATE_SCREENS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(page)
    assert page == golden.read_text()

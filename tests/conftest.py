# SPDX-License-Identifier: MIT
"""The marks of all tests written with pytest: the tiers that they belong to."""

import fnmatch
import signal
from pathlib import Path

import pytest

from shared_segments import remove_segments

TESTS = Path(__file__).parent
LISTS = {TESTS / "more.txt": "more", TESTS / "all.txt": "slow"}


def pytest_configure(config):
    # A shell starts what runs in the background with these ignored, and programs under test would inherit that.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    config.addinivalue_line("markers", "more: of the second tier (tests/more.txt); `make test-more` runs it")
    config.addinivalue_line("markers", "slow: minutes, or one more of many (tests/all.txt); `make test-all` runs it")
    config.addinivalue_line("markers", "gpu: needs a real GPU; `make test-gpu` runs it")


def later_tier(path):
    """Of each test that the list names: the cases that stay in the tiers before."""
    lines = [line.split() for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert all(len(words) == 1 or words[1] == "except" and len(words) > 2 for words in lines), f"{path}: a line is wrong"
    return {words[0]: words[2:] for words in lines}


def is_later(item, kept):
    case = item.callspec.id.replace(" ", "_") if hasattr(item, "callspec") else ""
    return not any(fnmatch.fnmatchcase(case, pattern) for pattern in kept)


def pytest_collection_modifyitems(config, items):
    """Mark the later tiers; where whole files were collected, see that each line of the lists still names tests of them."""
    tests = {}
    for item in items:
        tests.setdefault(f"{item.path.relative_to(TESTS)}::{getattr(item, 'originalname', item.name)}", []).append(item)
    are_whole_files = not any("::" in argument for argument in config.args)
    files = {name.partition("::")[0] for name in tests}
    for path, mark in LISTS.items():
        for name, kept in later_tier(path).items():
            cases = tests.get(name, [])
            if are_whole_files and name.partition("::")[0] in files:
                if not cases or kept and all(is_later(case, kept) for case in cases):
                    raise pytest.UsageError(f"{path.relative_to(TESTS.parent)}: '{name}' names no test, or none of its cases")
            for case in cases:
                if is_later(case, kept):
                    case.add_marker(mark)


def pytest_runtest_teardown(item):
    if "tmp_path" in getattr(item, "funcargs", {}):
        remove_segments(item.funcargs["tmp_path"])


@pytest.fixture(scope="session", autouse=True)
def shared_memory_given_back(tmp_path_factory):
    """At the end, what is left of recordings that several tests read."""
    yield
    remove_segments(tmp_path_factory.getbasetemp())

# SPDX-License-Identifier: MIT
"""The marks of all tests written with pytest."""


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: minutes; `make test-all` runs it, `make test` does not")
    config.addinivalue_line("markers", "gpu: needs a real GPU; `make test-gpu` runs it")

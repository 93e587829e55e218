#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/coverage.md lists the cases that the coverage tests run, no others, and each as the tests have it.
set -eu
PYTHONDONTWRITEBYTECODE=1 exec python3 tests/e2e/coverage_table.py

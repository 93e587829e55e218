#!/bin/sh
# SPDX-License-Identifier: MIT
# What the command line prints for help and for wrong usage is what tests/cli/ holds.
set -eu

tests/cli/run.sh "${O:-build}/vramtrace"
echo 'cli: as recorded'

#!/bin/sh
# SPDX-License-Identifier: MIT
# Every row of docs/reliability.md is written by a test that is still there.
set -eu
for row in $(sed -n '/^<!-- rows:/,/^<!-- end of rows/s/^| `\([a-z0-9-]*\)` .*/\1/p' docs/reliability.md); do
	if ! grep -rqF "\"$row\"" --include='*.py' tests/e2e/hostile; then
		echo "reliability: no test writes the row '$row' of docs/reliability.md" >&2
		exit 1
	fi
done
echo 'reliability: every row has its test'

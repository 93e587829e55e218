#!/bin/sh
# SPDX-License-Identifier: MIT
# unit_test.sh PROGRAM: run a unit test, of several side by side; what it prints is shown only where it fails.
echo "  TEST  $1"
if ! timeout 900 "$1" >"$1.log" 2>&1; then
	cat "$1.log"
	echo "$1 failed" >&2
	exit 255 # xargs begins no further one
fi

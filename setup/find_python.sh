#!/bin/sh
# SPDX-License-Identifier: MIT
# Print the path of a python3 (3.10 or newer) that can make a virtual environment: $PYTHON3 when set, else the
# system's, else the first on PATH: one that has venv and ensurepip, which a self-built or stripped one may lack. The
# system's comes first since distributions build it by profile: PyTorch starts in a seventh less time.
usable='import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))'

for p in ${PYTHON3:-/usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11 python3.10}; do
	if path=$(command -v "$p") && "$path" -c "$usable" >/dev/null 2>&1; then
		echo "$path"
		exit 0
	fi
done
echo "vramtrace: no python3 between 3.10 and 3.14 with venv and ensurepip${PYTHON3:+ at '$PYTHON3'}:" \
	"install python3-venv, or name one with PYTHON3=" >&2
exit 1

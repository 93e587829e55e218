#!/bin/sh
# SPDX-License-Identifier: MIT
# wheels_apart.sh DIR PYTHON REQUIREMENT...: unpack wheels into DIR by PYTHON's pip, without what they depend on, for
# tests that need NVIDIA's libraries of other versions than the environment's. Nothing is installed.
set -eu
dir=$1 python=$2
shift 2
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
echo "vramtrace: fetching $* for tests, once" >&2
"$python" -m pip install --disable-pip-version-check --quiet --no-deps --no-compile --only-binary=:all: --target "$dir" "$@"
touch "$dir/.complete"

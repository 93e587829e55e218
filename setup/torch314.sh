#!/bin/sh
# SPDX-License-Identifier: MIT
# torch314.sh DIR PYTHON: PyTorch for CPython 3.14, for tests: the version of PYTHON's environment and what it imports,
# in DIR. NVIDIA's libraries are the environment's own: no second 3 GB. PYTHON's pip fetches it; nothing is installed.
set -eu
dir=$1 python=$2
packages='torch|numpy|typing.extensions|sympy|mpmath|networkx|jinja2|markupsafe|fsspec|filelock|setuptools'

echo "vramtrace: fetching PyTorch for CPython 3.14, once: 550 MB to download, 1.4 GB in $dir" >&2
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
wanted=$("$python" -m pip list --format=freeze --disable-pip-version-check | grep -iE "^($packages)==" | sed 's/+.*//')
# shellcheck disable=SC2086
"$python" -m pip install --disable-pip-version-check --quiet --no-deps --no-compile --only-binary=:all: \
	--implementation cp --python-version 3.14 --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
	--platform manylinux2014_x86_64 --target "$dir" $wanted
ln -s "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nvidia" "$dir/nvidia"
touch "$dir/.complete"

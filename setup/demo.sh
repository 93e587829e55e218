#!/bin/sh
# SPDX-License-Identifier: MIT
# demo.sh BUILD PYTHON: record a small training run, on a real GPU if there is one, and print its report.
set -eu
build=$1 python=$2
here=$(dirname "$0")
simulate='--simulate h100'
if "$build/vramtrace" gpu >/dev/null; then
	simulate=
fi

show() {
	echo
	echo "\$ $*"
	"$@"
}

cd "$here/.."
show "$build/vramtrace" run $simulate --force -o "$build/demo.vtr" -- "$python" examples/train_gpt.py
show "$build/vramtrace" report "$build/demo.vtr"

#!/bin/sh
# SPDX-License-Identifier: MIT
# Refuse a change that takes more GPU memory than vramtrace.toml allows, on a machine without a GPU.
#
#   pre-merge.sh PROGRAM [ARGUMENT ...]      exit 0: merge it, 1: it takes too much, 2: it could not be told
#   pre-merge.sh --update PROGRAM ...        make the baseline anew: to be checked in with the change
#
# The program should train a few steps only. As a git hook, .git/hooks/pre-push:
#   exec examples/ci/pre-merge.sh python train.py --steps 8
set -eu
gpu=${GPU:-h100}
update=
if [ "${1-}" = --update ]; then
	update=1
	shift
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! vramtrace run -q --simulate "$gpu" -o "$folder/train.vtr" -- "$@" >"$folder/log" 2>&1; then
	tail -n 20 "$folder/log" >&2
	# A program that ran out of memory is judged, too.
	vramtrace check --no-oom "$folder/train.vtr" || exit
	exit 2
fi
if [ "$update" ]; then
	vramtrace baseline -o memory-baseline.toml "$folder/train.vtr"
else
	vramtrace check "$folder/train.vtr"
fi

#!/bin/sh
# SPDX-License-Identifier: MIT
# Golden tests of the command line: each CASE.sh, run in an empty folder, must print CASE.stdout.
#
#   tests/cli/run.sh [--update] [VRAMTRACE]      default: build/vramtrace
#
# A case finds the command in $V, the repository in $TREE. --update writes what is printed into CASE.stdout.
set -u

TREE=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
update=
if [ "${1-}" = --update ]; then
	update=1
	shift
fi
V=$(realpath "${1:-$TREE/build/vramtrace}") || exit 2
export TREE V TZ=UTC LC_ALL=C COLUMNS=80
unset NO_COLOR LD_PRELOAD
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT

failed=0
for script in "$TREE"/tests/cli/*.sh; do
	name=$(basename "$script" .sh)
	[ "$name" = run ] && continue
	mkdir "$scratch/$name"
	(cd "$scratch/$name" && sh "$script") >"$scratch/$name.stdout" </dev/null
	if [ "$update" ]; then
		cp "$scratch/$name.stdout" "$TREE/tests/cli/$name.stdout"
	elif ! diff -u "$TREE/tests/cli/$name.stdout" "$scratch/$name.stdout"; then
		echo "cli test '$name' prints something else; if that is right: tests/cli/run.sh --update" >&2
		failed=1
	fi
done
exit $failed

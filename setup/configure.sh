#!/bin/sh
# SPDX-License-Identifier: MIT
# configure.sh BUILD: ask this machine what it has. Prints make variables on stdout, what it found on stderr.
# Each checks/have_X.c (or .cc) is compiled and linked as its second line says:
#	/* what it is for. package: NAME link: FLAGS needed|optional */
set -eu
build=$1
cd "$(dirname "$0")/.."
missing=
trap 'rm -f "$build/probe"' EXIT
mkdir -p "$build"

for probe in checks/have_*.c checks/have_*.cc; do
	name=$(basename "${probe%.*}")
	line=$(sed -n 2p "$probe")
	what=$(echo "$line" | sed 's,^/\* ,,; s,\. package:.*,,')
	package=$(echo "$line" | sed 's,.*package: \([^ ]*\).*,\1,')
	link=$(echo "$line" | sed 's,.*link: *\(.*\) [a-z]* \*/$,\1,')
	if ${CC:-gcc} -D_GNU_SOURCE -o "$build/probe" "$probe" $link 2>"$build/$name.log"; then
		answer='[ on ]'
		echo "$(echo "$name" | tr a-z A-Z) := 1"
		rm -f "$build/$name.log"
	else
		answer='[OFF]'
		case $line in
		*" needed */") missing="$missing $package" ;;
		esac
	fi
	printf '  %-6s %-12s %s\n' "$answer" "${name#have_}" "$what" >&2
done

if [ -n "$missing" ]; then
	echo "vramtrace: these packages are needed:$missing" >&2
	echo "  what the compiler said is in $build/have_*.log" >&2
	exit 1
fi
setup/cuda_files.sh "$build"

#!/bin/sh
# SPDX-License-Identifier: MIT
# The documents say what the sources say: README.md's commands are those of analyzer/main.c, each command has
# a manual page with the options of its -h, and README.md lists the environment variables that the code reads.
set -eu
O=${O:-build}
status=0

# same WHAT SOURCES DOCUMENTS: complain when the two lists differ.
same() {
	if [ "$2" != "$3" ]; then
		echo "readme: $1 differ: in the sources" $2 "- in the documents" $3 >&2
		status=1
	fi
}

# long_options PATTERN: the --options of the lines on stdin that begin with PATTERN.
long_options() {
	grep -oE "^$1--[a-z-]+" | grep -oE -e '--[a-z-]+' | grep -vx -e --help | sort
}

commands=$(sed -n 's/^\t{ "\([a-z-]*\)", *cmd_.*/\1/p' analyzer/main.c | sort)
variables=$(grep -rhoE '"(VRAMTRACE|SIMGPU)_[A-Z_]+"' --include='*.[ch]' libinterpose analyzer simgpu)

same 'commands' "$commands" "$(sed -n 's/^| `\([a-z][a-z-]*\)` |.*/\1/p' README.md | sort)"
same 'manual pages' "$commands" "$(ls docs/man | sed -n 's/^vramtrace-\([a-z-]*\)\.1\.scd/\1/p' | sort)"
same 'environment variables' "$(echo "$variables" | tr -d '"' | sort -u)" \
	"$(sed -n 's/^| `\([A-Z_]*\)` |.*/\1/p' README.md | sort)"

for c in $commands; do
	same "options of $c" "$("$O/vramtrace" "$c" -h | long_options ' +(-[a-zA-Z], )?')" \
		"$(sed -n '/^# OPTIONS/,/^# EXIT/s/\*//gp' "docs/man/vramtrace-$c.1.scd" | long_options '(-[a-zA-Z], )?')"
done
if [ $status = 0 ]; then
	echo 'readme: tables and manual pages as the sources'
fi
exit $status

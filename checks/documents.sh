#!/bin/sh
# SPDX-License-Identifier: MIT
# The documents say what the sources say: the commands of docs/commands.md are those of analyzer/main.c, each command
# has a manual page with the options of its -h, and docs/environment.md lists the environment variables that the code
# reads. README.md can be read at one go, and links lead to files that are there.
set -eu
O=${O:-build}
status=0

# same WHAT SOURCES DOCUMENTS: complain when the two lists differ.
same() {
	if [ "$2" != "$3" ]; then
		echo "documents: $1 differ: in the sources" $2 "- in the documents" $3 >&2
		status=1
	fi
}

# long_options PATTERN: the --options of the lines on stdin that begin with PATTERN.
long_options() {
	grep -oE "^$1--[a-z-]+" | grep -oE -e '--[a-z-]+' | grep -vx -e --help | sort
}

commands=$(sed -n 's/^\t{ "\([a-z-]*\)", *cmd_.*/\1/p' analyzer/main.c | sort)
variables=$(grep -rhoE '"(VRAMTRACE|SIMGPU)_[A-Z_]+"' --include='*.[ch]' libinterpose analyzer simgpu)

same 'commands' "$commands" "$(sed -n 's/^| `\([a-z][a-z-]*\)` |.*/\1/p' docs/commands.md | sort)"
same 'manual pages' "$commands" "$(ls docs/man | sed -n 's/^vramtrace-\([a-z-]*\)\.1\.scd/\1/p' | sort)"
same 'environment variables' "$(echo "$variables" | tr -d '"' | sort -u)" \
	"$(sed -n 's/^| `\([A-Z_]*\)` |.*/\1/p' docs/environment.md | sort)"

for c in $commands; do
	same "options of $c" "$("$O/vramtrace" "$c" -h | long_options ' +(-[a-zA-Z], )?')" \
		"$(sed -n '/^# OPTIONS/,/^# EXIT/s/\*//gp' "docs/man/vramtrace-$c.1.scd" | long_options '(-[a-zA-Z], )?')"
done

if command -v scdoc >/dev/null; then
	for page in docs/man/*.scd; do
		if ! scdoc <"$page" >/dev/null; then
			echo "documents: scdoc cannot read $page" >&2
			status=1
		fi
	done
fi
if [ "$(wc -l <README.md)" -gt 150 ]; then
	echo 'documents: README.md has more than 150 lines: tables belong into docs/' >&2
	status=1
fi
for page in $(git ls-files '*.md' 2>/dev/null || ls ./*.md docs/*.md); do
	for link in $(grep -oE '\]\([^)#: ]+' "$page" | cut -c3- | sort -u); do
		if ! [ -e "$(dirname "$page")/$link" ]; then
			echo "documents: $page has a link to $link, which is not there" >&2
			status=1
		fi
	done
done
if [ $status = 0 ]; then
	echo 'documents: tables and manual pages as the sources, and links to what is there'
fi
exit $status

#!/bin/sh
# SPDX-License-Identifier: MIT
# What CONTRIBUTING.md says of where things go is there: each path of its table, with any name in place of NAME, PART
# and ROOM; and docs/ARCHITECTURE.md names each room of analyzer/, and no other.
set -eu
status=0 nr=0

# complain WHAT: say it, and fail at the end.
complain() {
	echo "contributing: $1" >&2
	status=1
}

places=$(sed -n '/^## Where things go/,/^## /s/^| [^|]* | \(.*\) |$/\1/p' CONTRIBUTING.md |
	grep -oE '`[^` ]*[/.][^` ]*`' | tr -d '`' | sort -u)
for place in $places; do
	nr=$((nr + 1))
	# A pattern such as analyzer/*/*.c: one file that it matches is enough.
	set -- $(echo "$place" | sed -E 's/NAME|PART|ROOM/*/g')
	[ -e "$1" ] || complain "CONTRIBUTING.md names '$place', which is not there"
done
[ "$nr" -ge 10 ] || complain "only $nr paths found in CONTRIBUTING.md's table: has its form changed?"

rooms=$(ls analyzer/*/ROOM.md | cut -d/ -f2)
listed=$(sed -n 's/^| `\([a-z]*\)\/` |.*/\1/p' docs/ARCHITECTURE.md)
for room in $rooms; do
	grep -q "\`$room/\`" docs/ARCHITECTURE.md || complain "docs/ARCHITECTURE.md does not name analyzer/$room/"
done
for folder in analyzer/*/; do
	[ -e "$folder/ROOM.md" ] || complain "${folder}ROOM.md is missing: it says what belongs into this folder"
done
for room in $listed; do
	[ -d "$room" ] || [ -d "analyzer/$room" ] || complain "docs/ARCHITECTURE.md has a line for $room/, which is not there"
done
if [ $status = 0 ]; then
	echo "contributing: $nr paths and $(echo "$rooms" | wc -l) rooms are where the documents say"
fi
exit $status

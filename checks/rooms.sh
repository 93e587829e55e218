#!/bin/sh
# SPDX-License-Identifier: MIT
# The analyzer's rooms use each other as analyzer/layers says, and only downwards: by the symbols of the object files.
set -eu

build=${O:-build}
users=$(grep -l '"analyzer/ui/' analyzer/*/*.[ch] | grep -v '^analyzer/\(cmds\|checkpages\|pages\|picturepages\|whatifpages\|ui\)/' || true)
if [ -n "$users" ]; then
	echo "rooms: only pages/, checkpages/, picturepages/, whatifpages/ and cmds/ may include what is in analyzer/ui:" "$users" >&2
	exit 1
fi
# One file a result: print_NAME.c has its text and its JSON; a second printer of the same would be named after one of them.
second=$(ls analyzer/*/json_*.c analyzer/*/text_*.c analyzer/*/*_json.c analyzer/*/*_text.c 2>/dev/null || true)
printers=$(ls analyzer/*/print_*.c | grep -v '^analyzer/\(cmds\|checkpages\|pages\|picturepages\|whatifpages\|ui\)/' || true)
if [ -n "$second$printers" ]; then
	echo "rooms: a result has one page, analyzer/pages/print_NAME.c, with its text and its JSON:" $second $printers >&2
	exit 1
fi
for room in analyzer/*/; do
	nr=$(ls "$room" | grep -c '\.c$' || true)
	if [ "$nr" -gt 30 ]; then
		echo "rooms: $room has $nr C sources: a room has at most 30, so that one can find one's way in it" >&2
		exit 1
	fi
done
for source in analyzer/*/*.c analyzer/*/*.cc; do
	nm -A "$build/${source%.c*}.o"
done | awk -v layers=analyzer/layers '
	function complain(text) { print "rooms: " text > "/dev/stderr"; failed = 1 }
	BEGIN {
		while ((getline line < layers) > 0) {
			if (line ~ /^(#|$)/)
				continue
			nr_words = split(line, word, /:? +|:$/)
			at[word[1]] = ++nr_rooms
			for (i = 2; i <= nr_words; i++)
				if (word[i] != "")
					listed[word[1], word[i]] = 1
		}
	}
	{
		nr = split($1, path, "/")
		room = path[nr - 1]
		sub(/:.*/, "", path[nr])
		object = room "/" path[nr]
		seen[room] = 1
		if ($(NF - 1) == "U")
			wants[object, $NF] = room
		else if (NF > 2 && $(NF - 1) ~ /[TDBRVWC]/)
			home[$NF] = room
	}
	END {
		for (room in seen)
			if (!(room in at))
				complain("analyzer/" room " is missing in " layers)
		for (room in at)
			if (!(room in seen))
				complain(layers " names analyzer/" room ", which has no sources")
		for (key in wants) {
			split(key, part, SUBSEP)
			from = wants[key]
			to = home[part[2]]
			if (to == "" || to == from)
				continue
			used[from, to] = 1
			if (!((from, to) in listed))
				complain("analyzer/" part[1] " may not use " part[2] " of analyzer/" to)
		}
		for (key in listed) {
			split(key, part, SUBSEP)
			if (!(part[2] in at) || at[part[2]] <= at[part[1]])
				complain(layers " lets " part[1] " use " part[2] ", which must stand below it")
			else if (!(key in used))
				complain(layers " lets " part[1] " use " part[2] ", which it does not")
		}
		exit failed
	}'
echo "rooms: as analyzer/layers"

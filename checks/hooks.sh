#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/hooks.md is the table of libinterpose/hooks.def, docs/recorded.md has its summary. --update writes both.
set -eu
def=libinterpose/hooks.def page=docs/hooks.md recorded=docs/recorded.md

# The page: a table for each section of hooks.def, which begins with a comment of one line.
page() {
	cat <<-'END'
	# What is recorded

	Every entry point that the recorder interposes, and what it leaves in the trace: the table of `libinterpose/hooks.def`,
	written by `checks/hooks.sh --update`. *Version* is the one that `cuGetProcAddress` is asked with for this form of the
	function, *ptsz* marks the form for the per-thread default stream. Memory is counted at the driver: what the runtime's
	functions name is the event of the driver call they make. Each row has a test (`tests/preload/test_rows.py`).
	END
	awk '
	function text(s) { gsub(/^ *"|" *$/, "", s); return s }
	/^\/\* .* \*\/$/ && !/SPDX/ {
		name = $0; sub(/^\/\* /, "", name); sub(/ \*\/$/, "", name)
		printf "\n## %s%s\n\n", toupper(substr(name, 1, 1)), substr(name, 2)
		head = ""
	}
	/^(DRIVER|RUNTIME|IGNORED)\(/ {
		row = $0; kind = substr(row, 1, index(row, "(") - 1)
		sub(/^[A-Z]+\(/, "", row); sub(/\)$/, "", row)
		if (kind != head) {
			print kind == "DRIVER" ? "| function | version | recorded |\n|---|---|---|" \
			      : kind == "RUNTIME" ? "| function | recorded |\n|---|---|" : "| function | why |\n|---|---|"
			head = kind
		}
		if (kind == "DRIVER") {
			split(row, f, /, */)
			match(row, /"[^"]*"$/)
			printf "| `%s` | %s%s | %s |\n", f[1], f[3], f[4] == "PER_THREAD" ? " ptsz" : "", text(substr(row, RSTART))
		} else if (kind == "RUNTIME") {
			match(row, /"[^"]*"$/)
			printf "| `%s` | %s |\n", substr(row, 1, index(row, ",") - 1), text(substr(row, RSTART))
		} else {
			split(row, f, /", "/)
			names = text(f[1]); gsub(/, /, "`, `", names)
			printf "| `%s` | %s |\n", names, text(f[2])
		}
	}' "$def"
}

# The summary: a row for each section, what its rows record in a few words.
SUMMARY_HEAD='| calls | entry points | recorded |'
summary() {
	printf '%s\n|---|--:|---|\n' "$SUMMARY_HEAD"
	awk '
	function finish() {
		if (nr)
			printf "| [%s](hooks.md#%s) | %d | %s%s |\n", name, link, nr, words, ends ? ", and their end" : ""
		nr = ends = 0
		words = ""
		split("", seen)
	}
	/^\/\* .* \*\/$/ && !/SPDX/ {
		finish()
		name = $0; sub(/^\/\* /, "", name); sub(/ \*\/$/, "", name)
		link = name; gsub(/,/, "", link); gsub(/ /, "-", link)
	}
	/^RUNTIME\(/ { nr++; words = name == "copies" ? "what is filled from the host, or from other device memory" : "the calls of the driver that they make" }
	/^DRIVER\(/ {
		nr++
		match($0, /"[^"]*"\)$/)
		word = substr($0, RSTART + 1, RLENGTH - 3)
		sub(/([:;]|, (32-bit|if|of|on|release|sampled|with) ?).*/, "", word)
		if (word ~ /^(free|end) of|^it |^one reference less/)
			ends = 1
		else if (!(word in seen))
			words = words (words == "" ? "" : ", ") word
		seen[word] = 1
	}
	END { finish() }' "$def"
}

if [ "${1-}" = --update ]; then
	page >"$page"
	summary | awk -v head="$SUMMARY_HEAD" '
		NR == FNR { table = table $0 "\n"; next }
		$0 == head { printf "%s", table; skip = 1 }
		!/^\|/ { skip = 0 }
		!skip' - "$recorded" >"$recorded.new"
	mv "$recorded.new" "$recorded"
	exit 0
fi
if ! sed -n "/^$SUMMARY_HEAD$/,/^$/p" "$recorded" | sed '$d' | diff -u - /dev/fd/3 3<<END >&2
$(summary)
END
then
	echo "hooks: the table of $recorded is not what $def says: run checks/hooks.sh --update" >&2
	exit 1
fi
if ! page | diff -u "$page" - >&2; then
	echo "hooks: $page is not what $def says: run checks/hooks.sh --update" >&2
	exit 1
fi
driver=$(grep -c '^DRIVER(' "$def") runtime=$(grep -c '^RUNTIME(' "$def")
if ! grep -q "$driver of the driver's entry points and $runtime of the runtime's" "$recorded"; then
	echo "hooks: $recorded does not say that there are $driver driver and $runtime runtime entry points" >&2
	exit 1
fi
echo "hooks: $driver driver and $runtime runtime entry points as documented"

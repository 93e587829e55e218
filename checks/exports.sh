#!/bin/sh
# SPDX-License-Identifier: MIT
# The preload library brings nothing into the program but its hooks: its exported symbols are those of
# libinterpose/hooks.def and exports.txt, and the C library and its loader are all it needs.
set -eu
O=${O:-build}
lib=$O/libinterpose.so
wanted=$O/exports.wanted found=$O/exports.found

for f in "$lib" "$wanted"; do
	if [ ! -e "$f" ]; then
		echo "exports: cannot open '$f': build first" >&2
		exit 1
	fi
done
nm -D --defined-only "$lib" | awk '{ print $3 }' | sed 's/@.*//' | LC_ALL=C sort >"$found"
if ! diff -u "$wanted" "$found"; then
	echo "exports: $lib and $wanted differ (+ is too many, - is missing)" >&2
	exit 1
fi

needed=$(readelf -d "$lib" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
extra=$(echo "$needed" | grep -vx -e libc.so.6 -e 'ld-linux.*' || true)
if [ -n "$extra" ]; then
	echo "exports: $lib must not need" $extra >&2
	exit 1
fi
echo "exports: $(wc -l <"$found") symbols as listed, libc alone needed"

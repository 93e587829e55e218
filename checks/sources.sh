#!/bin/sh
# SPDX-License-Identifier: MIT
# Every source file names its licence and leaves no work undone, and no two C files have the same name.
set -eu
dirs='tracefmt libinterpose simgpu analyzer tests bench examples setup checks python'
sources=$(find $dirs -name '*.[ch]' -o -name '*.cc' -o -name '*.py' -o -name '*.sh' -o -name '*.mk' -o -name '*.def' | sort)

bare=$(grep -L 'SPDX-License-Identifier: MIT' $sources || true)
if [ -n "$bare" ]; then
	echo "sources: no SPDX tag in:" $bare >&2
	exit 1
fi
if grep -nwE 'TODO|FIXME|XXX|HACK' $sources | grep -v '^checks/sources.sh:'; then
	echo "sources: finish it or file an issue" >&2
	exit 1
fi
twice=$(echo "$sources" | grep '\.[ch]$' | sed 's,.*/,,' | sort | uniq -d)
if [ -n "$twice" ]; then
	echo "sources: more than one file is named" $twice >&2
	exit 1
fi
echo "sources: $(echo "$sources" | wc -l) files"

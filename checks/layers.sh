#!/bin/sh
# SPDX-License-Identifier: MIT
# The tree is the architecture: tracefmt and simgpu know none of the other parts, and the recorder and the
# analyzer meet only in tracefmt/tracefmt.h.
set -eu

# forbid DIR PATTERN: no source in DIR includes a file that matches PATTERN.
forbid() {
	if [ -d "$1" ] && grep -rnE "^[[:space:]]*#[[:space:]]*include[[:space:]]+[<\"](\.\./)*($2)" \
		--include='*.[ch]' --include='*.def' "$1"; then
		echo "layers: $1/ must not include that" >&2
		exit 1
	fi
}

forbid tracefmt '(libinterpose|analyzer|simgpu)/'
forbid simgpu '(libinterpose|analyzer|tracefmt)/'
forbid libinterpose '(analyzer|simgpu)/|tracefmt/[^t]|tracefmt/t[^r]'
forbid analyzer '(libinterpose|simgpu)/|tracefmt/[^t]|tracefmt/t[^r]'
echo 'layers: kept'

#!/bin/sh
# SPDX-License-Identifier: MIT
# What the books are made of is the ledger's alone: other rooms of the analyzer include its public headers, no others.
set -eu

inside=$(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]([^<">]*/)?ledger/' analyzer |
	grep -v '^analyzer/ledger/' | grep -vE '[<"]analyzer/ledger/(books|series)\.h[>"]' || true)
if [ -n "$inside" ]; then
	echo "$inside" | sed -E 's/^([^:]*:[0-9]*):[^<"]*[<"]([^<">]*).*/ledger: \1 includes \2, which is inside the ledger/' >&2
	echo "ledger: include analyzer/ledger/books.h, and declare there, documented, what it does not give yet" >&2
	exit 1
fi
echo 'ledger: asked by books.h and series.h'

#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh BUILD CACHE: run the smoke set with every PyTorch of tests/matrix/*.txt, each in an environment of its own
# below CACHE, made when it is missing. Prints one line a version at the end; fails when one of them failed.
set -u
build=$1 cache=$2
here=$(dirname "$0")
tree=$here/../..
summary= failed=0

for requirements in "$here"/torch-*.txt; do
	name=$(basename "$requirements" .txt)
	venv=$cache/env-$(sha256sum "$requirements" | cut -c1-12)
	if "$tree/setup/venv.sh" "$venv" "$requirements" &&
		VRAMTRACE_BUILD=$build "$venv/bin/python" -m pytest -q -m 'not slow and not gpu' \
			"$tree/tests/e2e/test_versions.py" "$tree/tests/e2e/test_ledger.py" \
			"$tree/tests/e2e/test_coverage_core.py" "$tree/tests/e2e/test_pytorch_own.py" \
			"$tree/tests/preload/test_lookup_all.py"; then
		result=passed
	else
		result=FAILED failed=1
	fi
	summary="$summary
$name: $result"
done
echo "$summary"
exit $failed

#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh BUILD CACHE: run the smoke set with every PyTorch of tests/matrix/torch-*.txt, and the tests of names with those
# of names-torch-*.txt, too, each in an environment of its own below CACHE, made when it is missing. Prints one line a
# version at the end; fails when one of them failed.
set -u
build=$1 cache=$2
here=$(dirname "$0")
tree=$here/../..
summary= failed=0
smoke="$tree/tests/e2e/test_versions.py $tree/tests/e2e/test_ledger.py $tree/tests/e2e/test_coverage_core.py
	$tree/tests/e2e/test_pytorch_own.py $tree/tests/preload/test_lookup_all.py"
names="$tree/tests/e2e/test_names.py $tree/tests/e2e/test_keepers.py::test_keeper_is_named"
# A tensor's own hooks are left out: with PyTorch 2.4 and 2.6 a census does not come to what they keep, and says so.
for way in closure method partial backward; do
	names="$names $tree/tests/e2e/test_keepers.py::test_hook_that_alone_keeps_is_to_be_removed[$way]"
done
for test in test_keepers_are_named test_names_are_those_of_the_model[plain] test_names_are_those_of_the_model[ddp] \
	test_names_are_those_of_the_model[fsdp2] test_names_are_those_of_the_model[compiled] \
	test_categories_are_facts[fsdp2] test_forward_allocations_are_in_their_modules[plain] \
	test_nodes_of_graphs_are_counted test_views_have_their_own_bytes; do
	names="$names $tree/tests/e2e/test_census.py::$test"
done

for requirements in "$here"/*torch-*.txt; do
	name=$(basename "$requirements" .txt)
	venv=$cache/env-$(sha256sum "$requirements" | cut -c1-12)
	case $name in
	names-*) tests=$names ;;
	*) tests="$smoke $names" ;;
	esac
	# shellcheck disable=SC2086
	if "$tree/setup/venv.sh" "$venv" "$requirements" &&
		VRAMTRACE_BUILD=$build "$venv/bin/python" -m pytest -q -m 'not slow and not gpu' $tests; then
		result=passed
	else
		result=FAILED failed=1
	fi
	summary="$summary
$name: $result"
done
echo "$summary"
exit $failed

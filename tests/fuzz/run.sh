#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh BUILD FUZZER...: run each for TIME seconds. New inputs stay in the build folder. Status 1: one found something.
build=$1
shift
for f; do
	echo "  FUZZ  $f"
	mkdir -p "$build/fuzz/inputs/$f"
	dict="tests/fuzz/$f.dict"
	recordings=
	case $f in
	reader) recordings="tests/fuzz/corpus/reader tests/golden/v1" ;;
	commands | export) # also one with a census after it
		mkdir -p "$build/fuzz/seeds"
		cat tests/golden/v1/named.vtr tests/golden/v1/named.2.names >"$build/fuzz/seeds/named"
		recordings="tests/fuzz/corpus/reader tests/golden/v1 $build/fuzz/seeds"
		;;
	census) recordings="-seed_inputs=$(echo tests/golden/v1/*.names | tr ' ' ,)" ;;
	esac
	if ! "$build/fuzz/$f" -max_total_time="${TIME:-60}" -max_len=65536 -timeout=20 -print_final_stats=1 \
		-artifact_prefix="$build/fuzz/$f-" $([ -f "$dict" ] && echo "-dict=$dict") \
		"$build/fuzz/inputs/$f" "tests/fuzz/corpus/$f" $recordings 2>"$build/fuzz/$f.log"; then
		grep -v '^#' "$build/fuzz/$f.log" | tail -n 60
		exit 1
	fi
	grep -E 'DONE|number_of_executed' "$build/fuzz/$f.log"
done

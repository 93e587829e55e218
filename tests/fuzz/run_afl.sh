#!/bin/sh
# SPDX-License-Identifier: MIT
# run_afl.sh BUILD FUZZER...: run each under AFL++ for TIME seconds. Status 1: one found something.
build=$1
shift
export AFL_SKIP_CPUFREQ=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_NO_UI=1 AFL_NO_AFFINITY=1
for f; do
	echo "  AFL   $f"
	out="$build/fuzz-afl/inputs/$f"
	seeds="$build/fuzz-afl/seeds/$f"
	dict="tests/fuzz/$f.dict"
	rm -rf "$out" "$seeds"
	mkdir -p "$out" "$seeds"
	cp "tests/fuzz/corpus/$f"/* "$seeds"
	case $f in
	reader | commands | export)
		cp tests/fuzz/corpus/reader/* "$seeds"
		for trace in tests/golden/v1/*.vtr; do
			cp "$trace" "$seeds/golden-${trace##*/}"
		done
		;;
	esac
	case $f in
	commands | export) cat tests/golden/v1/named.vtr tests/golden/v1/named.2.names >"$seeds/named" ;;
	census) cp tests/golden/v1/*.names "$seeds" ;;
	esac
	if ! afl-fuzz -V "${TIME:-60}" -t 5000 -m none -i "$seeds" -o "$out" \
		$([ -f "$dict" ] && echo "-x $dict") -- "$build/fuzz-afl/$f" >"$out/log" 2>&1; then
		cat "$out/log"
		exit 1
	fi
	grep -E '^(execs_done|bitmap_cvg|saved_crashes|saved_hangs)' "$out/default/fuzzer_stats"
	if [ -n "$(ls "$out/default/crashes" 2>/dev/null)" ]; then
		ls "$out/default/crashes"/*
		exit 1
	fi
done

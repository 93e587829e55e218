# SPDX-License-Identifier: MIT
# Usage errors: one line, exit 2; of run: 125, 126, 127.
try()
{
	"$V" "$@" >printed 2>&1
	status=$?
	sed -e "s|$PWD|HERE|g" -e 's/ knows .*/ knows .../' printed
	echo "status $status"
}
try info
try info a b
try info --no-such a
try info --json=yes a
try info --color red a
try verify
try gpu 0
try dump --limit
try dump --limit x a
try dump --limit -1 a
try dump --kind tensor a
try dump --kind , a
try dump --from soon a
try dump --to 3x a
try dump --from 5s --to 300ms a
try import
try import a b
try import missing.pickle
try anonymize
try anonymize a
try anonymize a b c
try anonymize missing.vtr out.vtr
try peak --top -5 a
try leaks --top -1 a
try advise
try whatif
try whatif --gpu nothing a
try whatif --capacity much a
try whatif --conf foo:1 a
try whatif --search --conf a b
try frag
try frag --top -1 a
try frag --points 0 a
try max-fit
try max-fit --max 8
try max-fit -- true {}
try max-fit --max 8 -- true
try max-fit --min 9 --max 8 -- true {}
try max-fit --min 9 --max 15 --multiple-of 8 -- true {}
try max-fit --max 8 --multiple-of 0 -- true {}
try max-fit --max 8 --headroom 10 -- true {}
try max-fit --max 8 --headroom 100% -- true {}
try max-fit --max 8 --steps -2 -- true {}
try max-fit --max 8 --jobs 2 -- true {}
try max-fit --max 8 --jobs 99 --simulate h100 -- true {}
try max-fit --max 8 --simulate h100,h1000 -- true {}
try max-fit --max 8 --simulate , -- true {}
try max-fit --max 8 --simulate-capacity 1GiB -- true {}
try max-fit --max 8 --simulate h100 --simulate-capacity much -- true {}
try max-fit --max 8 --simulate h100 -o missing/folder -- true {}
try max-fit --values 1,2 --max 8 -- true {}
try max-fit --values 1,x -- true {}
try max-fit --values 1, -- true {}
try max-fit --values 0 -- true {}
try max-fit --values '' -- true {}
try check a
try check --max-peak 20 a
try check --max-peak much a
try check --max-peak rank0=20 a
try check --max-peak 20GiB,,1GiB a
try check --max-fragmentation 1001% a
try check --max-fragmentation 10 a
try check --baseline missing.toml --tolerance 1001% a
try check --baseline missing.toml --tolerance 2 a
try check --baseline missing.toml a
try check --limits missing.toml a
try check --max-peak 1GiB missing.vtr
try check --max-peak 1GiB --top -1 a
try check --format html a
try baseline
try baseline missing.vtr
try diff a
try diff --tolerance x a b
try diff --by line a b
try diff missing.vtr missing.vtr
try completion
try completion tcsh
try completion bash zsh
try completion --json bash
try export
try export a
try export -f nothing a
try export -f csv
try export -f csv a b
try export -f csv --at end a
try export -f csv --what blocks --at all a
try export -f folded --what blocks a
try export -f csv --what stacks a
try export -f folded missing.vtr
try export -f csv --split a
try export -f folded -o missing/x missing.vtr
try run
try run --max-peak 1GiB -- true
try run --check -- true
try run --check --max-peak 1 -- true
try run --check --max-peak 1GiB --exec -- true
try run --check --max-peak 1GiB --check-exit-code 256 -- true
try run --stacks all -- true
try run --no-record -- true
try run --simulate h1000 -- true
try run --simulate 65xh100 -- true
try run -o missing/x.vtr -- true
try run -o '' -- true
try run -- ./missing
try run -- .
try top </dev/null
try top a b
try top --once --csv 1s
try top --csv 1 --alert 101%
try top --csv 1ms a
try top --csv soon a
try top --alert 101% --once a
try top --alert 90 --once a
try top --alert-command true --once a
try top --sort size a
try top --once missing.vtr
try top --once 4000000000

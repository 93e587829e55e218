#!/bin/sh
# SPDX-License-Identifier: MIT
# cuda_files.sh BUILD: print as make variables where the files of setup/cuda_files.txt are: CUDA_INC, the
# include folders that together have every header, and CUDART, the runtime library that the examples link.
# Looked at in this order: $CUDA_HOME, the toolkit of the nvcc on PATH, /usr/local/cuda, the wheels of the
# environment $VENV, and what was fetched before. Files found nowhere are fetched into BUILD/cuda.
set -eu
build=$1
here=$(dirname "$0")
dirs=

# A toolkit of another major version declares other prototypes: only CUDA 13's will do.
toolkit() {
	inc=$(readlink -f "$1/include") || return 0
	[ -e "$inc/cuda.h" ] || return 0
	version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$inc/cuda.h")
	if [ "${version:-0}" -lt 13000 ] || [ "$version" -ge 14000 ]; then
		echo "vramtrace: the headers in $inc are CUDA $((${version:-0} / 1000)), not 13: not used" >&2
		return 0
	fi
	case " $dirs " in *" $inc "*) ;; *) dirs="$dirs $inc $inc/cccl" ;; esac
}

wheels() {
	for inc in "$1"/nvidia/*/include; do
		if [ -e "$inc" ]; then
			dirs="$dirs $inc $inc/cccl"
		fi
	done
}

# where FILE: print the first folder that has it; a library stands beside the headers, in lib64 or lib.
where() {
	for inc in $dirs; do
		for d in "$inc" "$inc/../lib64" "$inc/../lib"; do
			if [ -e "$d/$1" ]; then
				echo "$d"
				return 0
			fi
		done
	done
	return 1
}

if [ -n "${CUDA_HOME:-}" ]; then
	toolkit "$CUDA_HOME"
fi
if [ "${CUDA_TOOLKIT:-yes}" != no ]; then
	if nvcc=$(command -v nvcc); then
		toolkit "$(dirname "$(dirname "$(readlink -f "$nvcc")")")"
	fi
	toolkit /usr/local/cuda
fi
if [ -e "${VENV:-}/.complete" ]; then
	wheels "$(echo "$VENV"/lib/python3*/site-packages)"
fi
wheels "$build/cuda"

fetch=$(grep -v '^#' "$here/cuda_files.txt" | while read -r file wheel mb; do
	where "$file" >/dev/null || echo "$mb $wheel"
done | sort -u)

if [ -n "$fetch" ]; then
	total=$(echo "$fetch" | awk '{ mb += $1 } END { print mb }')
	echo "vramtrace: fetching CUDA headers, which no toolkit here has, from PyPI, once: $total MB to download" >&2
	python=$("$here/find_python.sh")
	mkdir -p "$build/cuda/wheels"
	"$python" -m venv "$build/cuda/pip"
	echo "$fetch" | while read -r mb wheel; do
		echo "  $wheel ($mb MB)" >&2
		"$build/cuda/pip/bin/python" -m pip download -q --disable-pip-version-check --no-cache-dir \
			--no-deps --only-binary :all: -d "$build/cuda/wheels" "$wheel" >&2
		"$python" - "$build" <<-'UNZIP'
			import glob, os, re, sys, zipfile
			wanted = re.compile("/include/(?!cccl/(?!nv/))|/libcudart[.]so")
			out = sys.argv[1] + "/cuda"
			for path in glob.glob(out + "/wheels/*.whl"):
			    with zipfile.ZipFile(path) as wheel:
			        wheel.extractall(out, filter(wanted.search, wheel.namelist()))
			    os.remove(path)
		UNZIP
	done
	rm -rf "$build/cuda/pip" "$build/cuda/wheels"
	dirs=$(echo "$dirs" | tr ' ' '\n' | grep -v "^$build/cuda/" || true)
	wheels "$build/cuda"
fi

used= cudart=
while read -r file wheel mb; do
	case $file in "#"*) continue ;; esac
	if ! d=$(where "$file"); then
		echo "vramtrace: '$file' is missing from $wheel; name a CUDA 13 toolkit with CUDA_HOME=" >&2
		exit 1
	fi
	case $file in
	*.so*) cudart=$(readlink -f "$d")/$file ;;
	*) case " $used " in *" $d "*) ;; *) used="$used $d" ;; esac ;;
	esac
done <"$here/cuda_files.txt"
echo "CUDA_INC :=$used"
echo "CUDART := $cudart"
printf '  %-6s %-12s %s\n' '[ on ]' 'CUDA 13' "headers in$used" >&2

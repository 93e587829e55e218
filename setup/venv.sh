#!/bin/sh
# SPDX-License-Identifier: MIT
# venv.sh DIR REQUIREMENTS: make the virtual environment DIR with the pinned packages of REQUIREMENTS, once.
# DIR/.complete says that it is whole. Two makes at once wait for each other; what an interrupted one left
# behind is made anew, but a folder that is not an environment is never touched.
set -eu
venv=$1 requirements=$2
here=$(dirname "$0")

[ ! -e "$venv/.complete" ] || exit 0
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
if ! flock -n 9; then
	echo "vramtrace: another make sets up $venv: waiting for it" >&2
	flock 9
fi
[ ! -e "$venv/.complete" ] || exit 0

if [ -e "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ] && [ -n "$(ls -A "$venv")" ]; then
	echo "vramtrace: '$venv' is there and is no Python environment: name another with VENV=" >&2
	exit 1
fi

python=$("$here/find_python.sh")
cat >&2 <<TEXT
vramtrace: setting up the Python environment for demo and tests, once; clones share it.
  where     $venv  (VENV= names another)
  python    $python
  packages  $(grep -v '^#' "$requirements" | tr '\n' ' ')
  download  3 to 5 GB from PyPI (PyTorch with CUDA), 6 to 9 GB on disk
TEXT
free_kib=$(df -Pk "$(dirname "$venv")" | awk 'NR == 2 { print $4 }')
if [ "$free_kib" -lt 9000000 ]; then
	echo "vramtrace: warning: only $((free_kib / 1048576)) GiB are free there, installing takes up to 9" >&2
fi

"$python" -m venv --clear "$venv"
# DeepSpeed comes as source: whatever is set outside, without its compiled parts, which would need nvcc.
export DS_BUILD_OPS=0
# uv unpacks and compiles on all processors, in a third of pip's time; what it cannot do here, pip does.
uv_install()
{
	"$venv/bin/python" -m pip install -q --disable-pip-version-check uv==0.13.9 || return 1
	export UV_CACHE_DIR="$venv.uv"
	[ -z "${PIP_INDEX_URL-}" ] || export UV_DEFAULT_INDEX="$PIP_INDEX_URL"
	[ -z "${PIP_FIND_LINKS-}" ] || [ ! -d "$PIP_FIND_LINKS" ] || export UV_FIND_LINKS="$PIP_FIND_LINKS"
	"$venv/bin/uv" pip install --python "$venv/bin/python" --compile-bytecode -r "$requirements" || return 1
}
trap 'rm -rf "$venv.uv"' EXIT
uv_install >&2 || "$venv/bin/python" -m pip install --disable-pip-version-check -r "$requirements" >&2
"$venv/bin/python" -c 'import torch, numpy, transformers'
: >"$venv/.complete"
echo "vramtrace: the Python environment is ready" >&2

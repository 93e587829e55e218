#!/bin/sh
# SPDX-License-Identifier: MIT
# pytorch_tests.sh [VERSION]: fetch PyTorch's own tests of its CUDA allocator, which its wheels do not hold, for
# tests/e2e/test_pytorch_own.py. They come from Debian's source package of that version (2.6), with the packages that
# they import, into the folder where the test looks for them. Installs nothing on the system.
set -eu
version=${1:-2.6}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/vramtrace/pytorch-tests-$version
python=$("$(dirname "$0")/find_python.sh")

if [ -e "$folder/.complete" ]; then
	echo "vramtrace: '$folder' is there" >&2
	exit 0
fi
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' |
	head -n 1)
if [ -z "$mirror" ]; then
	echo "vramtrace: no Debian mirror is configured: put test_cuda.py of PyTorch $version into '$folder'" >&2
	exit 1
fi

# An apt of our own: source packages only, of the releases that have this version, beside the system's.
rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/apt/parts"
cat >"$folder/apt/parts/debian.sources" <<TEXT
Types: deb-src
URIs: $mirror
Suites: trixie sid
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
TEXT
cat >"$folder/apt/apt.conf" <<TEXT
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$folder/apt/parts";
Dir::State::Lists "$folder/apt/lists";
Dir::Cache "$folder/apt/cache";
TEXT
export APT_CONFIG="$folder/apt/apt.conf"
apt-get update -q >&2
package=$(apt-cache showsrc pytorch | sed -n "s/^Version: \($version[.+].*\)/\1/p" | head -n 1)
if [ -z "$package" ]; then
	echo "vramtrace: Debian has no source of PyTorch $version" >&2
	exit 1
fi
(cd "$folder/apt" && apt-get source -q --download-only "pytorch=$package" >&2)
tar -xf "$folder"/apt/*.orig.tar.xz -C "$folder" --strip-components=2 --wildcards '*/test/test_cuda.py' \
	'*/test/test_cuda_expandable_segments.py'
rm -rf "$folder/apt"
"$python" -m pip install --disable-pip-version-check -q --target "$folder/packages" expecttest hypothesis psutil >&2
: >"$folder/.complete"
echo "vramtrace: PyTorch's tests are in '$folder'" >&2

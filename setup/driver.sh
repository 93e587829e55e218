#!/bin/sh
# SPDX-License-Identifier: MIT
# driver.sh DIR SUITE VERSION: NVIDIA's own driver libraries (libcuda, NVML, the PTX compiler) of driver VERSION, such as
# 535, as Debian's SUITE packages them, in DIR/root, for tests of lookups on machines without a GPU. The mirror is the one
# that this machine's apt uses for Debian. Nothing is installed, and no kernel module is among them. Prints why it cannot.
set -eu
dir=$1 suite=$2 version=$3
cd "$(dirname "$0")"
apart=$PWD/apt_apart.sh
root=$dir/root libraries=$dir/root/usr/lib/x86_64-linux-gnu/nvidia/current

fail() {
	echo "vramtrace: no driver $version: $1" >&2
	exit 1
}

[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || fail 'this is no Debian on x86-64'
mirror=$(apt-get indextargets --format '$(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
	sed -n '/-security/d; s/^main //p' | head -n 1)
[ -n "$mirror" ] || fail 'apt has no lists of Debian here; run apt-get update'
rm -rf "$dir"
mkdir -p "$dir/apt/debs" "$root"
echo "vramtrace: fetching NVIDIA's driver libraries $version for tests, once: 12 MB to download, 57 MB on disk" >&2

echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite non-free" >"$dir/apt/sources.list"
"$apart" "$dir" update --error-on=any >"$dir/log" 2>&1 || fail "apt-get update failed, see '$dir/log'"
(cd "$dir/apt/debs" && "$apart" "$dir" download libcuda1 libnvidia-ml1 libnvidia-ptxjitcompiler1) >>"$dir/log" 2>&1 ||
	fail "apt-get download failed, see '$dir/log'"
for deb in "$dir"/apt/debs/*.deb; do
	dpkg-deb -x "$deb" "$root"
done
rm -rf "$dir/apt" "$root/usr/share"
found=$(basename "$(readlink -f "$libraries/libcuda.so.1")")
[ "${found#libcuda.so."$version".}" != "$found" ] || fail "Debian's $suite has '$found' now"
touch "$dir/.complete"

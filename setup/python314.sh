#!/bin/sh
# SPDX-License-Identifier: MIT
# python314.sh DIR: CPython 3.14 of Debian 14, for tests on systems that have none, as DIR/root/usr/bin/python3.14. It
# runs with the newer C library that it was built for, unpacked beside it; nothing is installed. DIR cannot be moved:
# the program names its loader by path. Needs patchelf and, for apt's signatures, Debian's keys: fails on other systems.
set -eu
dir=$1
cd "$(dirname "$0")"
root=$dir/root libraries=$dir/root/usr/lib/x86_64-linux-gnu
loader=$root/usr/lib64/ld-linux-x86-64.so.2 python=$root/usr/bin/python3.14

fail() {
	echo "vramtrace: no CPython 3.14: $1" >&2
	exit 1
}

[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || fail 'this is no Debian on x86-64'
command -v patchelf >/dev/null || fail 'patchelf is missing: install it'
rm -rf "$dir"
mkdir -p "$dir/apt/debs" "$root"
echo "vramtrace: fetching CPython 3.14 for tests, once: 20 MB to download" >&2

echo 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian forky main' \
	>"$dir/apt/sources.list"
./apt_apart.sh "$dir" update --error-on=any >"$dir/log" 2>&1 || fail "apt-get update failed, see '$dir/log'"
apart=$PWD/apt_apart.sh
(cd "$dir/apt/debs" && "$apart" "$dir" download python3.14-minimal libpython3.14-minimal libpython3.14-stdlib \
	libc6 libexpat1 libffi8 zlib1g) >>"$dir/log" 2>&1 || fail "apt-get download failed, see '$dir/log'"
for deb in "$dir"/apt/debs/*.deb; do
	dpkg-deb -x "$deb" "$root"
done
rm -rf "$dir/apt" "$root/usr/share"
patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$python"
"$python" -c 'import ctypes, json' || fail "'$python' does not run"
touch "$dir/.complete"

#!/bin/sh
# SPDX-License-Identifier: MIT
# aarch64.sh DIR: unpack the arm64 builds of the -dev packages of setup/packages.txt, and all they need, below
# DIR/root, for a cross compiler's --sysroot and qemu's -L. Nothing is installed; apt works on lists of its own, from
# this machine's sources, so that dpkg need not know the architecture.
set -eu
dir=$1
cd "$(dirname "$0")/.."
apt=$dir/apt

rm -rf "$dir"
mkdir -p "$apt" "$dir/root"
echo "vramtrace: fetching libraries for aarch64, once: 25 MB to download" >&2

apt_arm64() {
	setup/apt_apart.sh "$dir" -o APT::Architecture=arm64 -o APT::Architectures=arm64 "$@"
}

apt_arm64 update >"$apt/log"
apt_arm64 install -y --no-install-recommends --download-only \
	libstdc++6 $(sed -n 's/^\(lib[^ ]*-dev\).*/\1/p' setup/packages.txt) >>"$apt/log"
for deb in "$apt"/archives/*.deb; do
	dpkg-deb -x "$deb" "$dir/root"
done
rm -rf "$apt"
touch "$dir/.complete"

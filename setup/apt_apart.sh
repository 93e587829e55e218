#!/bin/sh
# SPDX-License-Identifier: MIT
# apt_apart.sh DIR ARGUMENTS: apt-get with lists, state and packages of its own in DIR/apt: what it fetches need not fit
# this machine, and nothing here is installed or changed. DIR/apt/sources.list is used where there is one, else this
# machine's sources.
set -eu
apt=$1/apt
shift
mkdir -p "$apt/lists/partial" "$apt/archives/partial"
touch "$apt/status"
if [ -e "$apt/sources.list" ]; then
	set -- -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null "$@"
fi
exec apt-get -q -o APT::Sandbox::User= -o Debug::NoLocking=1 -o Acquire::Languages=none -o Acquire::http::Timeout=20 \
	-o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" \
	-o Dir::Cache="$apt" -o Dir::Cache::Archives="$apt/archives" "$@"

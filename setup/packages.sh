#!/bin/sh
# SPDX-License-Identifier: MIT
# packages.sh [LIST]: install the Debian packages of LIST (setup/packages.txt) that are missing: as root by apt, else
# say how and stop.
# On a system without dpkg nothing is installed; the probes (checks/have_*.c) then tell what is missing.
set -eu
cd "$(dirname "$0")/.."
list=${1:-setup/packages.txt}

command -v dpkg-query >/dev/null || exit 0

installed() {
	case $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) in
	*" installed") return 0 ;;
	*) return 1 ;;
	esac
}

available() {
	apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'
}

missing=
for p in $(sed -n 's/^\([a-z][^ ]*\).*/\1/p' "$list"); do
	installed "$p" || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "vramtrace: packages are missing; install them and start again:" >&2
	echo "  sudo apt-get update && sudo apt-get install --no-install-recommends$missing" >&2
	exit 1
fi

echo "vramtrace: installing Debian packages:$missing" >&2
for p in $missing; do
	available "$p" || { apt-get update -q; break; }
done
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing

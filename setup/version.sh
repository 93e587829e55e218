#!/bin/sh
# SPDX-License-Identifier: MIT
# The version, which pyproject.toml holds, and the commit that git knows of this tree, if it is a work tree of its own:
# as flags for the compiler. A tree without git, or inside another's, has no commit.
cd "$(dirname "$0")/.." || exit
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
commit=
[ -n "$(git rev-parse --show-prefix 2>/dev/null || echo elsewhere)" ] ||
	commit=$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null)
echo "-DVRAMTRACE_VERSION=$version -DVRAMTRACE_COMMIT=$commit"

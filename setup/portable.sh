#!/bin/sh
# SPDX-License-Identifier: MIT
# portable.sh BUILD: build what the Python package carries for every Linux with glibc 2.28 or newer. The compiler that
# can do that is PyPI's ziglang (clang, with the symbols of every glibc); libraries that are linked in are Debian's.
set -eu
glibc=2.28
cd "$(dirname "$0")/.."
mkdir -p "$1"
build=$(cd "$1" && pwd)
machine=$(uname -m)

if [ ! -x "$build/zig/bin/python" ]; then
	"$(setup/find_python.sh)" -m venv "$build/zig"
	"$build/zig/bin/python" -m pip install -q --disable-pip-version-check ziglang==0.17.1
fi
# A compiler is one word in many places. Headers of the libraries come after those of that glibc. Names that zig's linker
# cannot hide, or bind one by one, are bound within the library all alike.
cat >"$build/cc" <<END
#!/bin/bash
words=() language=cc
for word in "\$@"; do
	case \$word in
	-Wl,--exclude-libs,ALL) words+=(-Wl,-Bsymbolic) ;;
	-Wl,-Bsymbolic-functions) ;;
	-l:*) words+=("\$(gcc -print-file-name="\${word#-l:}")") ;;
	*.cc) words+=("\$word") language=c++ ;;
	-ldw) for a in dw elf zstd lzma bz2 z; do words+=("\$(gcc -print-file-name="lib\$a.a")"); done ;;
	-lelf | -lz) ;; # with -ldw
	-ljson-c | -lncursesw | -ltinfo) words+=("\$(gcc -print-file-name="lib\${word#-l}.a")") ;;
	*) words+=("\$word") ;;
	esac
done
exec '$build/zig/bin/python' -m ziglang \$language -target $machine-linux-gnu.$glibc -idirafter /usr/include "\${words[@]}"
END
chmod +x "$build/cc"
# Its C++ library and unwinder are linked in.
mkdir -p "$build/package-licenses"
zig=$(echo "$build"/zig/lib/python3*/site-packages/ziglang)
cp "$zig/LICENSE" "$build/package-licenses/zig.txt"
cp "$zig/lib/libcxx/LICENSE.TXT" "$build/package-licenses/libcxx.txt"
cp "$zig/lib/libunwind/LICENSE.TXT" "$build/package-licenses/libunwind.txt"
exec make O="$build" CC="$build/cc" CXX_ARCHIVE=-lc++ LDFLAGS=-lunwind package

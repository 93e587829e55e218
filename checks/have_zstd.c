/* SPDX-License-Identifier: MIT */
/* compression, hidden in a library. package: libzstd-dev link: -shared -fPIC -l:libzstd.a -Wl,--exclude-libs,ALL needed */
#include <zstd.h>

size_t probe(size_t nr_bytes);

size_t probe(size_t nr_bytes)
{
	return ZSTD_compressBound(nr_bytes);
}

/* SPDX-License-Identifier: MIT */
/* gzip, in which pprof profiles are written. package: zlib1g-dev link: -lz needed */
#include <zlib.h>

int main(void)
{
	return *zlibVersion() == 0;
}

/* SPDX-License-Identifier: MIT */
/* checksums. package: libxxhash-dev link: -DXXH_INLINE_ALL needed */
#include <xxhash.h>

int main(void)
{
	return (int)XXH3_64bits("", 0);
}

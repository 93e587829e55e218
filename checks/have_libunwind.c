/* SPDX-License-Identifier: MIT */
/* native stacks. package: libunwind-dev link: needed */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

int main(void)
{
	return sizeof(unw_cursor_t) == 0;
}

/* SPDX-License-Identifier: MIT */
/* symbols, file and line of native frames. package: libdw-dev link: -ldw -lelf needed */
#include <elfutils/libdwfl.h>

int main(void)
{
	return dwfl_errno();
}

/* SPDX-License-Identifier: MIT */
/* unit tests. package: libcmocka-dev link: -lcmocka optional */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

int main(void)
{
	print_message("%s", "");
	return 0;
}

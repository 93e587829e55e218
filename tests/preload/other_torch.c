/* SPDX-License-Identifier: MIT */
/* PyTorch's counter of autograd nodes in a library of another name than PyTorch's, and a call of it. */
#include <stdint.h>

uint64_t _ZN2at15sequence_number17get_and_incrementEv(void);
int visitor_count(void *unused);

uint64_t _ZN2at15sequence_number17get_and_incrementEv(void)
{
	static uint64_t number = 6;

	return ++number;
}

int visitor_count(void *unused)
{
	(void)unused;
	return (int)_ZN2at15sequence_number17get_and_incrementEv();
}

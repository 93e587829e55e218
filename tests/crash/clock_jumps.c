/* SPDX-License-Identifier: MIT */
/* A preload library in whose process somebody sets the clock: from its second reading on back and forth by hours. */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static _Atomic int nr_readings;
	int rc = (int)syscall(SYS_clock_gettime, clock, now), n;

	if (clock != CLOCK_REALTIME || rc)
		return rc;
	n = nr_readings++;
	if (n)
		now->tv_sec += n % 2 ? -3600L * 5 : 3600L * 7;
	return rc;
}

/* SPDX-License-Identifier: MIT */
/* fdatasync(2) that does not wait; see filesync.h. */
#include "filesync.h"

#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST 4 /* that are forgotten may be going on at once */

bool filesync_begin(struct filesync *s, int fd)
{
	struct iocb request = { .aio_lio_opcode = IOCB_CMD_FDSYNC, .aio_fildes = (uint32_t)fd }, *requests = &request;

	if (!s->context && syscall(SYS_io_setup, MOST, &s->context)) {
		s->context = 0;
		return false;
	}
	request.aio_data = ++s->number;
	s->is_going_on = syscall(SYS_io_submit, s->context, 1, &requests) == 1;
	return s->is_going_on;
}

bool filesync_is_done(struct filesync *s, int *err)
{
	struct timespec none = { 0 };
	struct io_event done;

	*err = 0;
	while (s->is_going_on) {
		long nr = syscall(SYS_io_getevents, s->context, 0, 1, &done, &none);

		if (!nr)
			return false;
		if (nr < 0) /* nothing will be heard of it any more */
			break;
		if (done.data != s->number)
			continue;
		*err = done.res < 0 ? (int)-done.res : 0;
		break;
	}
	s->is_going_on = false;
	return true;
}

void filesync_forget(struct filesync *s)
{
	s->is_going_on = false;
}

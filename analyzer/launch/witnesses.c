/* SPDX-License-Identifier: MIT */
/* Who has used GPU memory; see witnesses.h. */
#include "analyzer/launch/witnesses.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracefmt/tracefmt.h"

#define VARIABLE "VRAMTRACE_WITNESS"

static struct tfmt_witnesses *page;

/* Memory that keeps its size whatever others do: they map it. */
static int sealed_memory(void)
{
	int fd = memfd_create("vramtrace-witnesses", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void (*before)(int) = signal(SIGXFSZ, SIG_IGN); /* `ulimit -f` holds for memory, too */

	if (fd >= 0 && (ftruncate(fd, sizeof(*page)) ||
			fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))) {
		close(fd);
		fd = -1;
	}
	signal(SIGXFSZ, before);
	return fd;
}

void witnesses_open(void)
{
	int fd = sealed_memory();
	char path[64];

	unsetenv(VARIABLE);
	if (fd < 0)
		return;
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		page = NULL;
		close(fd);
		return;
	}
	page->magic = TFMT_WITNESS_MAGIC;
	/* It stays open: that is its name. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	setenv(VARIABLE, path, 1);
}

size_t witnesses_nr(void)
{
	return page ? page->nr : 0;
}

bool witnesses_next(struct unrecorded *u, size_t *at)
{
	size_t nr = witnesses_nr();

	for (; *at < nr && *at < TFMT_WITNESS_MAX; ++*at) {
		const struct tfmt_witness *w = &page->entry[*at];

		if (!w->pid || !w->why)
			continue;
		*u = (struct unrecorded){ .pid = w->pid, .why = w->why, .error = w->error, .nr = w->unrecorded };
		snprintf(u->program, sizeof(u->program), "%.*s", (int)sizeof(w->program), w->program);
		++*at;
		return true;
	}
	return false;
}

uint32_t witnesses_next_recorder(size_t *at)
{
	size_t nr = witnesses_nr();

	while (*at < nr && *at < TFMT_WITNESS_MAX) {
		const struct tfmt_witness *w = &page->entry[(*at)++];

		if (w->pid && !w->why)
			return w->pid;
	}
	return 0;
}

void witnesses_empty(void)
{
	if (page)
		memset((char *)page + offsetof(struct tfmt_witnesses, nr), 0,
		       sizeof(*page) - offsetof(struct tfmt_witnesses, nr));
}

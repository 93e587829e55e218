/* SPDX-License-Identifier: MIT */
/*
 * dlerror() beside the recorder's own use of the loader. The C library keeps one message a thread, and any call of the
 * loader drops it. Preparing to record opens libraries, on a thread whose program may not yet have asked why its last
 * dlopen failed; and where the program finds nothing because only a wrapper of ours is there, nobody has said so. Such
 * messages are kept here and handed out at the thread's next dlerror().
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose.h"
#include "lookup.h"
#include "objects.h"

#define BEING_WRITTEN (-1L)

/* A thread that never asks keeps its place until it next calls the loader. */
static struct message {
	_Atomic long owner; /* the thread whose message it is, 0 = none */
	bool is_told;
	char text[1024];
} messages[32];
#define NR_MESSAGES (sizeof(messages) / sizeof(*messages))
static _Atomic unsigned nr_owed;

static char *real_dlerror(void)
{
	static char *(*_Atomic real)(void);

	if (!atomic_load_explicit(&real, memory_order_relaxed))
		atomic_store(&real, (char *(*)(void))ip_symbol_libc("dlerror"));
	return real();
}

static struct message *message_of(long owner)
{
	for (struct message *m = messages; m < messages + NR_MESSAGES; m++)
		if (atomic_load_explicit(&m->owner, memory_order_relaxed) == owner)
			return m;
	return NULL;
}

/* What this thread is owed, or NULL. */
static struct message *owed(void)
{
	return atomic_load_explicit(&nr_owed, memory_order_relaxed) ? message_of(syscall(SYS_gettid)) : NULL;
}

/* A place to write a message to; NULL if all are taken. */
static struct message *message_new(void)
{
	struct message *m;
	long nobody;

	do {
		nobody = 0;
		m = message_of(0);
	} while (m && !atomic_compare_exchange_strong(&m->owner, &nobody, BEING_WRITTEN));
	return m;
}

/* The C library's own message goes: the thread has this one. */
static void owe(struct message *m)
{
	real_dlerror();
	atomic_fetch_add(&nr_owed, 1);
	atomic_store(&m->owner, syscall(SYS_gettid));
}

static struct message *kept; /* between the two below, which one thread calls, once in a process */

bool ip_dlerror_keep(void)
{
	const char *text = real_dlerror();

	kept = text ? message_new() : NULL;
	if (kept)
		snprintf(kept->text, sizeof(kept->text), "%s", text);
	return kept;
}

void ip_dlerror_give_back(bool is_kept)
{
	if (is_kept)
		owe(kept);
	else
		real_dlerror();
}

void ip_dlerror_drop(void)
{
	struct message *m = owed();

	if (!m)
		return;
	m->is_told = false;
	atomic_store(&m->owner, 0);
	atomic_fetch_sub(&nr_owed, 1);
}

void ip_dlerror_clear(void)
{
	real_dlerror();
}

/* As the C library says it. Its own names our library; that remains where there is no place for a better one. */
void ip_dlerror_missing(const void *object, const char *name, const char *version)
{
	const struct link_map *map = object;
	const char *in = map && map->l_name[0] ? map->l_name : program_invocation_name;
	struct message *m = message_new();

	if (!m)
		return;
	snprintf(m->text, sizeof(m->text), "%s: undefined symbol: %s%s%s", in, name, version ? ", version " : "",
		 version ? version : "");
	owe(m);
}

/* The text is the thread's until its next call of the loader. */
IP_EXPORT char *dlerror(void)
{
	struct message *m = owed();

	if (m && !m->is_told) {
		m->is_told = true;
		return m->text;
	}
	ip_dlerror_drop();
	return real_dlerror();
}

/* SPDX-License-Identifier: MIT */
/* The one listener of simgpu/report.h, and what it is told. */
#include "simgpu/report.h"

#include <stdatomic.h>
#include <stddef.h>

#include "simgpu/simgpu.h"
#include "simgpu/taken.h"

static _Atomic(const struct simgpu_listener *) listener;

/* The listener's MEMBER, or NULL: none listens, it is too old to have that member, or does not care. */
#define LISTENING(l, member)                                                                             \
	((l) && (l)->struct_bytes >= offsetof(struct simgpu_listener, member) + sizeof((l)->member) &&   \
	 (l)->member)

bool sim_is_listening(void)
{
	return atomic_load(&listener);
}

void sim_tell_modelled_alloc(int dev, const char *owner, uint64_t address, uint64_t bytes)
{
	const struct simgpu_listener *l = atomic_load(&listener);

	if (LISTENING(l, modelled_alloc))
		l->modelled_alloc(dev, owner, address, bytes);
}

void sim_tell_modelled_free(int dev, const char *owner, uint64_t address, uint64_t bytes)
{
	const struct simgpu_listener *l = atomic_load(&listener);

	if (LISTENING(l, modelled_free))
		l->modelled_free(dev, owner, address, bytes);
}

void sim_tell_modelled_refusal(int dev, const char *owner, uint64_t bytes)
{
	const struct simgpu_listener *l = atomic_load(&listener);

	if (LISTENING(l, modelled_refusal))
		l->modelled_refusal(dev, owner, bytes);
}

void sim_tell_value_read(int dev, const void *p, size_t bytes)
{
	const struct simgpu_listener *l = atomic_load(&listener);

	if (LISTENING(l, value_read))
		l->value_read(dev, p, bytes);
}

void simgpu_listen(const struct simgpu_listener *new)
{
	sim_lock();
	atomic_store(&listener, new);
	sim_taken_repeat();
	sim_unlock();
}

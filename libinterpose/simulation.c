/* SPDX-License-Identifier: MIT */
/*
 * What a simulated device tells about itself: memory that real libraries would have taken, and values that
 * the host read although a kernel should have computed them. Both become events, with the stack of the call in
 * which the device told it.
 */
#include <string.h>

#include "interpose.h"
#include "resolve.h"

#define OWNERS_MAX 16
#define OWNER_NAME_MAX 32

/* As the simulated device takes it under the name simgpu_listen. */
struct listener {
	uint32_t struct_bytes;
	void (*modelled_alloc)(int device, const char *owner, uint64_t address, uint64_t bytes);
	void (*modelled_free)(int device, const char *owner, uint64_t address, uint64_t bytes);
	void (*value_read)(int device, const void *p, uint64_t bytes);
};

/* Owners seen so far, each with the function id FN_NR + index. Under owner_lock. */
static struct {
	uint32_t generation; /* whose they are: a fork child's trace begins without them */
	uint32_t nr;
	char name[OWNERS_MAX][OWNER_NAME_MAX];
} owners;

/* The function id that names this owner, defined in the trace; 0 = not to be had. */
static uint16_t owner_id(const char *name)
{
	size_t len = strnlen(name, OWNER_NAME_MAX);
	uint8_t payload[OWNER_NAME_MAX + 8], *p = payload;
	uint32_t i = 0;

	if (len == OWNER_NAME_MAX)
		return 0;
	ip_lock(&ip_recorder->owner_lock);
	if (owners.generation != ip_recorder->generation) {
		owners.generation = ip_recorder->generation;
		owners.nr = 0;
	}
	while (i < owners.nr && strcmp(owners.name[i], name))
		i++;
	p = tfmt_put_string(p, name, len);
	if (i == OWNERS_MAX ||
	    (i == owners.nr && !ip_define(TFMT_DEF_FUNCTION, FN_NR + i, payload, (size_t)(p - payload)))) {
		ip_unlock(&ip_recorder->owner_lock);
		return 0;
	}
	if (i == owners.nr)
		memcpy(owners.name[owners.nr++], name, len + 1);
	ip_unlock(&ip_recorder->owner_lock);
	return (uint16_t)(FN_NR + i);
}

static void record(struct tfmt_record *ev, int device, const char *owner)
{
	int saved = errno;
	struct ip_thread *t = ip_event_thread();

	if (t && (device < 0 || device >= TFMT_NR_DEVICES)) {
		ip_lost();
	} else if (t) {
		ev->device = (uint8_t)device;
		ip_driver_define_device(t, ev->device);
		t->busy = true;
		ev->function = owner ? owner_id(owner) : 0;
		ip_record(t, ev);
		t->busy = false;
	}
	errno = saved;
}

static void modelled(uint8_t kind, int device, const char *owner, uint64_t address, uint64_t bytes)
{
	struct tfmt_record ev = {
		.kind = kind,
		.flags = TFMT_SPACE_DEVICE | TFMT_FLAG_MODELLED,
		.address = address | TFMT_MODELLED_ADDRESS,
		.size = bytes,
	};

	record(&ev, device, owner);
}

static void modelled_alloc(int device, const char *owner, uint64_t address, uint64_t bytes)
{
	modelled(TFMT_DRIVER_ALLOC, device, owner, address, bytes);
}

static void modelled_free(int device, const char *owner, uint64_t address, uint64_t bytes)
{
	modelled(TFMT_DRIVER_FREE, device, owner, address, bytes);
}

static void value_read(int device, const void *p, uint64_t bytes)
{
	struct tfmt_record ev = { .kind = TFMT_VALUE_READ, .address = (uintptr_t)p, .size = bytes };

	record(&ev, device, NULL);
}

void ip_simulation_listen(void)
{
	static const struct listener listener = {
		.struct_bytes = sizeof(listener),
		.modelled_alloc = modelled_alloc,
		.modelled_free = modelled_free,
		.value_read = value_read,
	};
	void (*listen)(const struct listener *) = ip_simulated_listen();
	int saved = errno;

	if (!atomic_exchange(&ip_recorder->listening, true) && listen)
		listen(&listener);
	errno = saved;
}

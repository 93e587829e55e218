/* SPDX-License-Identifier: MIT */
/*
 * What a simulated device tells about itself: memory that real libraries would have taken, and values that
 * the host read although a kernel should have computed them. Both become events, with the stack of the call in
 * which the device told it.
 */
#include <string.h>

#include "hooks_driver.h"
#include "hooks_nccl.h"
#include "interpose.h"
#include "resolve.h"
#include "samples.h"
#include "strings.h"

/* As the simulated device takes it under the name simgpu_listen. */
struct listener {
	uint32_t struct_bytes;
	void (*modelled_alloc)(int device, const char *owner, uint64_t address, uint64_t bytes);
	void (*modelled_free)(int device, const char *owner, uint64_t address, uint64_t bytes);
	void (*value_read)(int device, const void *p, uint64_t bytes);
	void (*modelled_refusal)(int device, const char *owner, uint64_t bytes);
};

/* The owner's name; of what NCCL takes, with the communicator. */
static uint16_t function_of(struct ip_thread *t, const char *owner)
{
	return open_nccl(t) && !strcmp(owner, "nccl") ? ip_nccl_named(owner) : ip_function_named(owner);
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
		ev->function = owner ? function_of(t, owner) : 0;
		ip_record(t, ev);
		t->busy = false;
		/* A context comes in the middle of a call whose own memory is not recorded yet. */
		if (ev->kind == TFMT_ALLOC_FAILED)
			ip_sample_refused(t, ev->device);
		else if (ev->kind == TFMT_DRIVER_ALLOC && strcmp(owner, "context") != 0 && strcmp(owner, "code") != 0)
			ip_sample_grown(t, ev->device, ev->size);
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

/* Contexts and code are the driver's own: the call that needs them fails, and is told by itself. */
static void modelled_refusal(int device, const char *owner, uint64_t bytes)
{
	struct tfmt_record ev = {
		.kind = TFMT_ALLOC_FAILED,
		.flags = TFMT_SPACE_DEVICE | TFMT_FLAG_MODELLED,
		.size = bytes,
		.aux = IP_OUT_OF_MEMORY,
	};

	if (strcmp(owner, "context") != 0 && strcmp(owner, "code") != 0)
		record(&ev, device, owner);
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
		.modelled_refusal = modelled_refusal,
	};
	void (*listen)(const struct listener *) = ip_simulated_listen();
	int saved = errno;

	if (!atomic_exchange(&ip_recorder->listening, true) && listen)
		listen(&listener);
	errno = saved;
}

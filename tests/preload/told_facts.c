/* SPDX-License-Identifier: MIT */
/*
 * Stands between the recorder and the simulated GPU and takes the recorder's listener in its place: the program
 * itself says, through the told_* functions, what a simulated GPU would tell (simgpu/report.h).
 */
#include <stddef.h>
#include <stdint.h>

#include "simgpu/report.h"

static const struct simgpu_listener *listener;

/* As if a context had been created before the recorder began to listen. */
static const struct {
	const char *owner;
	uint64_t address, bytes;
} live[] = { { "context", 0x10, 300u << 20 }, { "code", 0x20, 40u << 20 } };

void simgpu_listen(const struct simgpu_listener *l)
{
	listener = l;
	for (size_t i = 0; l && i < sizeof(live) / sizeof(live[0]); i++)
		l->modelled_alloc(0, live[i].owner, live[i].address, live[i].bytes);
}

void told_alloc(int device, const char *owner, uint64_t address, uint64_t bytes);
void told_alloc(int device, const char *owner, uint64_t address, uint64_t bytes)
{
	if (listener)
		listener->modelled_alloc(device, owner, address, bytes);
}

void told_free(int device, const char *owner, uint64_t address, uint64_t bytes);
void told_free(int device, const char *owner, uint64_t address, uint64_t bytes)
{
	if (listener)
		listener->modelled_free(device, owner, address, bytes);
}

void told_reads(int device, uint64_t p, uint64_t bytes, unsigned times);
void told_reads(int device, uint64_t p, uint64_t bytes, unsigned times)
{
	while (listener && times--)
		listener->value_read(device, (const void *)(uintptr_t)p, bytes);
}

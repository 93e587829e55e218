/* SPDX-License-Identifier: MIT */
/*
 * NVTX's texts: messages of every kind as UTF-8, and what handles stand for.
 *
 * Lookups take no lock. The memory is the process's own and plain, not a lock's and not the recorder's: a fork child
 * goes on using the handles that it inherited.
 */
#include <string.h>
#include <sys/mman.h>

#include "interpose.h"
#include "nvtx.h"
#include "strings.h"

#define SLOTS (1u << 17) /* power of two; programs register the name of every step */
#define NAMES_MAX (SLOTS / 4 * 3)
#define TEXT_BYTES (16u << 20)

struct names {
	struct nvtx_name *_Atomic slot[SLOTS];
	_Atomic uint32_t nr;
	_Atomic size_t used;
	_Alignas(16) uint8_t memory[TEXT_BYTES];
};

static struct names *_Atomic names;

/* Mapped at first use, touched as it fills. */
static struct names *names_ready(void)
{
	struct names *n = atomic_load_explicit(&names, memory_order_acquire), *none = NULL;

	if (n)
		return n;
	n = mmap(NULL, sizeof(*n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (n == MAP_FAILED)
		return NULL;
	if (!atomic_compare_exchange_strong(&names, &none, n)) {
		munmap(n, sizeof(*n));
		n = none;
	}
	return n;
}

void *nvtx_keep(size_t bytes)
{
	struct names *n = names_ready();
	size_t at;

	bytes = (bytes + 15) & ~(size_t)15;
	if (!n || atomic_load(&n->used) > TEXT_BYTES - bytes)
		return NULL;
	at = atomic_fetch_add(&n->used, bytes);
	return at <= TEXT_BYTES - bytes ? n->memory + at : NULL;
}

static uint32_t slot_of(uint64_t handle)
{
	return (uint32_t)(handle * 0x9e3779b97f4a7c15ull >> 40) & (SLOTS - 1);
}

uint64_t nvtx_name_keep(uint64_t handle, const struct nvtx_text *t)
{
	struct names *n = names_ready();
	struct nvtx_name *name;

	if (!n || atomic_load(&n->nr) >= NAMES_MAX)
		return handle;
	name = nvtx_keep(sizeof(*name) + t->len);
	if (!name)
		return handle;
	name->handle = handle ? handle : (uint64_t)(uintptr_t)name;
	name->len = (uint32_t)t->len;
	memcpy(name->text, t->text, t->len);
	for (uint32_t i = slot_of(name->handle);;) {
		struct nvtx_name *there = atomic_load_explicit(&n->slot[i], memory_order_acquire);

		/* Another tool may give a handle out again: it stands for what it was given for last. */
		if (there && there->handle != name->handle) {
			i = (i + 1) & (SLOTS - 1);
		} else if (atomic_compare_exchange_strong(&n->slot[i], &there, name)) {
			if (!there)
				atomic_fetch_add(&n->nr, 1);
			return name->handle;
		}
	}
}

struct nvtx_name *nvtx_name_find(uint64_t handle)
{
	struct names *n = atomic_load_explicit(&names, memory_order_acquire);
	struct nvtx_name *there;

	if (!n || !handle)
		return NULL;
	for (uint32_t i = slot_of(handle);; i = (i + 1) & (SLOTS - 1)) {
		there = atomic_load_explicit(&n->slot[i], memory_order_acquire);
		if (!there || there->handle == handle)
			return there;
	}
}

/* ---- texts ------------------------------------------------------------------------------------ */

void nvtx_text_ascii(struct nvtx_text *t, const char *text)
{
	t->text = text ? text : "";
	t->len = strnlen(t->text, NVTX_NAME_BYTES);
	t->registered = NULL;
}

/* One character as UTF-8; what is none becomes U+FFFD. Returns how many bytes. */
static size_t put_utf8(char out[static 4], uint32_t c)
{
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		c = 0xfffd;
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

void nvtx_text_wide(struct nvtx_text *t, const wchar_t *text)
{
	size_t len = 0;

	while (text && *text && len + 4 <= sizeof(t->buffer))
		len += put_utf8(t->buffer + len, (uint32_t)*text++);
	t->text = t->buffer;
	t->len = len;
	t->registered = NULL;
}

void nvtx_text_of(struct nvtx_text *t, const struct nvtx_attributes *a)
{
	int type = a && a->size >= sizeof(*a) ? a->message_type : 0;

	if (type == NVTX_MESSAGE_WIDE) {
		nvtx_text_wide(t, a->message.wide);
		return;
	}
	nvtx_text_ascii(t, type == NVTX_MESSAGE_ASCII ? a->message.ascii : NULL);
	t->registered = type == NVTX_MESSAGE_REGISTERED ? nvtx_name_find(a->message.registered) : NULL;
	if (t->registered) {
		t->text = t->registered->text;
		t->len = t->registered->len;
	}
}

void nvtx_text_cut_numbers(struct nvtx_text *t)
{
	static const char *const numbers[] = { ", seq = ", ", op_id = " };
	const char *end = t->text + t->len, *comma = t->text;

	while ((comma = memchr(comma, ',', (size_t)(end - comma))) != NULL) {
		for (unsigned i = 0; i < 2; i++) {
			size_t len = strlen(numbers[i]);

			if ((size_t)(end - comma) > len && !memcmp(comma, numbers[i], len)) {
				t->len = (size_t)(comma - t->text);
				return;
			}
		}
		comma++;
	}
}

/* ---- in the trace ----------------------------------------------------------------------------- */

/* A kept name is looked up in the trace's strings once for each process that records. */
static uint32_t name_id(struct nvtx_name *name)
{
	uint64_t cached = atomic_load_explicit(&name->cached, memory_order_relaxed);
	uint32_t id = (uint32_t)cached;

	if (cached >> 32 == ip_recorder->generation && id)
		return id;
	id = ip_string(name->text, name->len);
	atomic_store_explicit(&name->cached, (uint64_t)ip_recorder->generation << 32 | id, memory_order_relaxed);
	return id;
}

uint32_t nvtx_text_id(const struct nvtx_text *t)
{
	return t->registered ? name_id(t->registered) : ip_string(t->text, t->len);
}

uint32_t nvtx_domain_id(uint64_t domain)
{
	struct nvtx_name *name = nvtx_name_find(domain);

	return name ? name_id(name) : 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Attaching to PyTorch's caching allocator.
 *
 * NativeCachingAllocator::attachAllocatorTraceTracker is a virtual function of an object that libc10_cuda
 * exports, but where it lies among the virtual functions differs from version to version. Its address is in
 * the library's symbol table (.symtab, which PyTorch's wheels have); only when that address is found among
 * the object's own virtual functions is it called. What it takes is a std::function of libstdc++: 16 bytes
 * of data, a function that copies and destroys it, a function that is called. Both live here for ever, so
 * that copies need no care.
 */
#include "tracker.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "autograd.h"
#include "env.h"
#include "hooks_torch.h"
#include "opencall.h"

#define VIRTUAL_FUNCTIONS 96u /* looked at */

enum tracker_state { TRACKER_OPEN, TRACKER_TRYING, TRACKER_ATTACHED, TRACKER_NO_SYMBOL, TRACKER_OTHER };
static _Atomic int state;

static const char *const texts[] = {
	[TRACKER_ATTACHED] = "attached",
	[TRACKER_NO_SYMBOL] = "not attached: libc10_cuda.so has no symbol for it",
	[TRACKER_OTHER] = "not attached: the allocator is not PyTorch's caching allocator",
};

const char *ip_tracker_support(void)
{
	return texts[atomic_load_explicit(&state, memory_order_relaxed)];
}

/* ---- what the allocator tells ------------------------------------------------------------------- */

/* c10::cuda::CUDACachingAllocator::TraceEntry as far as it has kept its form since PyTorch 2.2. */
struct trace_entry {
	int32_t action;
	int8_t device;
	uint64_t address;
	const void *context[2];
	const void *stream; /* the driver's handle; reports have PyTorch's number of it */
	uint64_t size;
};

static void told(const struct trace_entry *entry)
{
	struct tfmt_record ev = {
		.kind = TFMT_ALLOCATOR,
		.device = (uint8_t)entry->device,
		.address = entry->address,
		.size = entry->size,
		.aux = (uint32_t)entry->action,
	};
	int saved = errno;
	struct ip_thread *t;

	if (entry->action == TFMT_ALLOCATOR_SNAPSHOT || (uint8_t)entry->device >= TFMT_NR_DEVICES)
		return;
	t = ip_state() == IP_RECORDING ? ip_event_thread() : NULL;
	if (t) {
		t->busy = true;
		autograd_before_event(t);
		if (open_tensor_find(t, NULL))
			ev.aux |= TFMT_ALLOCATOR_IN_TENSOR;
		ip_record(t, &ev);
		t->busy = false;
	}
	errno = saved;
}

/* ---- std::function<void(const TraceEntry &)> ---------------------------------------------------- */

struct standard_function {
	void *data[2];
	bool (*manage)(void *to, const void *from, int operation);
	void (*invoke)(const void *data, const struct trace_entry *entry);
};

/*
 * 0 its type, 1 a pointer to it, 2 copy, 3 destroy: there is nothing to copy or destroy, and nobody asks
 * for the rest.
 */
static bool manage(void *to, const void *from, int operation)
{
	(void)from;
	if (operation < 2)
		*(void **)to = NULL;
	return false;
}

static void invoke(const void *data, const struct trace_entry *entry)
{
	(void)data;
	told(entry);
}

/* ---- finding the function ----------------------------------------------------------------------- */

struct image {
	const uint8_t *base;
	size_t bytes;
};

static bool image_open(struct image *image, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *base = MAP_FAILED;

	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && (size_t)st.st_size > sizeof(ElfW(Ehdr)))
		base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (base == MAP_FAILED)
		return false;
	*image = (struct image){ base, (size_t)st.st_size };
	return true;
}

/* The bytes of a section, NULL if they do not lie in the file. */
static const void *section_bytes(const struct image *image, const ElfW(Shdr) *s)
{
	if (s->sh_offset > image->bytes || s->sh_size > image->bytes - s->sh_offset)
		return NULL;
	return image->base + s->sh_offset;
}

static bool is_wanted(const char *name)
{
	return strstr(name, "NativeCachingAllocator27attachAllocatorTraceTracker") && !strstr(name, ".cold");
}

/* The offset of the function in one symbol table; 0 if it is not there. */
static uint64_t find_in(const struct image *image, const ElfW(Shdr) *table, const ElfW(Shdr) *names)
{
	const ElfW(Sym) *symbol = section_bytes(image, table);
	const char *text = section_bytes(image, names);
	size_t nr = table->sh_size / sizeof(*symbol);

	if (!symbol || !text || !names->sh_size || text[names->sh_size - 1])
		return 0;
	for (size_t i = 0; i < nr; i++) {
		const ElfW(Sym) *s = &symbol[i];

		if ((s->st_info & 0xf) == STT_FUNC && s->st_value && s->st_name < names->sh_size &&
		    is_wanted(text + s->st_name))
			return s->st_value;
	}
	return 0;
}

static uint64_t find_offset(const struct image *image)
{
	const ElfW(Ehdr) *head = (const void *)image->base;
	const ElfW(Shdr) *section = (const void *)(image->base + head->e_shoff);

	if (memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_shoff > image->bytes ||
	    head->e_shnum > (image->bytes - head->e_shoff) / sizeof(*section))
		return 0;
	for (unsigned i = 0; i < head->e_shnum; i++) {
		if (section[i].sh_type == SHT_SYMTAB && section[i].sh_link < head->e_shnum)
			return find_in(image, &section[i], &section[section[i].sh_link]);
	}
	return 0;
}

/* Where attachAllocatorTraceTracker lies in memory; 0 if the library does not say. */
static uintptr_t find_function(const void *in_library)
{
	struct image image;
	uint64_t offset;
	Dl_info info;

	if (!dladdr(in_library, &info) || !info.dli_fname || !image_open(&image, info.dli_fname))
		return 0;
	offset = find_offset(&image);
	munmap((void *)(uintptr_t)image.base, image.bytes);
	return offset ? (uintptr_t)info.dli_fbase + offset : 0;
}

/* ---- attaching ---------------------------------------------------------------------------------- */

/* A table ends where the next begins, with the offset of its object: 0. */
static bool is_virtual_function(const void *object, uintptr_t function)
{
	const uintptr_t *virtual_table = *(const uintptr_t *const *)object;

	for (unsigned i = 0; i < VIRTUAL_FUNCTIONS && virtual_table[i]; i++) {
		if (virtual_table[i] == function)
			return true;
	}
	return false;
}

static enum tracker_state attach(void *allocator, const void *in_library)
{
	uintptr_t function = find_function(in_library);
	struct standard_function f = { .manage = manage, .invoke = invoke };

	if (!function)
		return TRACKER_NO_SYMBOL;
	if (!is_virtual_function(allocator, function))
		return TRACKER_OTHER;
	((void (*)(void *, struct standard_function *))function)(allocator, &f);
	return TRACKER_ATTACHED;
}

/*
 * The allocator PyTorch uses for CUDA is ready when a tensor is made by it, and then none of its locks is
 * held.
 */
void ip_tracker_try(const void *allocator)
{
	static struct real_function current = {
		"libc10_cuda.so", "_ZN3c104cuda20CUDACachingAllocator9allocatorE", NULL, false
	};
	void *const *object;
	int saved = errno, open = TRACKER_OPEN;

	if (atomic_load_explicit(&state, memory_order_relaxed) != TRACKER_OPEN || ip_state() > IP_RECORDING)
		return;
	object = torch_function(&current, NULL);
	if (!object || *object != allocator || !atomic_compare_exchange_strong(&state, &open, TRACKER_TRYING))
		return;
	atomic_store(&state, attach(*object, object));
	errno = saved;
}

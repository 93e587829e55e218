/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory management: physical handles, address reservations, mappings.
 *
 * A physical handle is an extent of its device's one memory file: thousands of handles need one descriptor,
 * and neighbours that are mapped side by side are one mapping for the kernel. A handle is charged when it is
 * created and given back when it is released and mapped nowhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simgpu/file_limit.h"
#include "simgpu/internal.h"

#define MULTICAST_NAME "simgpu-multicast"

enum { HOST_FILE = SIM_MAX_DEVICES };

struct physical {
	unsigned refs;			/* handles to it and mappings of it */
	size_t bytes;
	size_t offset;			/* in the memory file */
	int file;			/* a device, HOST_FILE, or -1: imported, with FD */
	int fd;
	uintptr_t shown_at;		/* its first mapping, 0 when there was none */
	CUmemAllocationProp prop;
};

static struct memory_file {
	bool open;
	int fd;
	ino_t inode;
	off_t bytes;
	struct sim_units extents;
} files[SIM_MAX_DEVICES + 1];

static struct sim_blocks reservations;
static struct sim_blocks handles;	/* a block of one byte for each struct physical, at its address */

/* The descriptor of a memory file; a program that closes or reuses every descriptor ends here, not in its
 * data. */
static int file_descriptor(struct memory_file *f)
{
	struct stat st;

	if (fstat(f->fd, &st) || st.st_ino != f->inode) {
		errno = EBADF;
		sim_host_limit("the program closed the descriptor of the simulated memory",
			       "descriptors of others must stay open");
	}
	return f->fd;
}

static void file_open(struct memory_file *f)
{
	struct stat st;

	f->fd = memfd_create("simgpu", MFD_CLOEXEC);
	if (f->fd < 0 || fstat(f->fd, &st))
		sim_host_limit("memfd_create failed", "raise `ulimit -n` (open files)");
	f->inode = st.st_ino;
	f->open = true;
}

/* Take an extent of BYTES; its contents are zero. Locked. */
static size_t extent_take(struct memory_file *f, size_t bytes)
{
	size_t offset;

	if (!f->open)
		file_open(f);
	offset = sim_units_take(&f->extents, bytes / SIM_GRANULE, true) * SIM_GRANULE;
	if ((off_t)(offset + bytes) > f->bytes) {
		f->bytes = (off_t)(f->extents.nr * SIM_GRANULE);
		if (file_limit_grow(file_descriptor(f), f->bytes))
			file_limit_end("growing the simulated memory file failed");
	}
	return offset;
}

static void extent_give(struct memory_file *f, size_t offset, size_t bytes)
{
	fallocate(file_descriptor(f), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		  (off_t)bytes);
	sim_units_give(&f->extents, offset / SIM_GRANULE, bytes / SIM_GRANULE);
}

/* Drop one reference. Locked. */
static void physical_put(struct physical *ph)
{
	struct sim_block entry;

	if (--ph->refs)
		return;
	if (ph->file < 0) {
		sim_multicast_end((uintptr_t)ph);
		close(ph->fd);
	} else {
		extent_give(&files[ph->file], ph->offset, ph->bytes);
		if (ph->file != HOST_FILE)
			sim_uncharge(ph->file, ph->bytes);
	}
	sim_blocks_remove(&handles, (uintptr_t)ph, &entry);
	free(ph);
}

/* A handle that programs may use, with one reference. Locked. */
static struct physical *physical_new(size_t bytes, int file, const CUmemAllocationProp *prop)
{
	struct physical *ph = sim_zalloc(sizeof(*ph));
	struct sim_block entry = { .kind = SIM_RESERVED, .start = (uintptr_t)ph, .bytes = 1 };

	ph->refs = 1;
	ph->bytes = bytes;
	ph->file = file;
	ph->prop = *prop;
	sim_blocks_add(&handles, &entry);
	return ph;
}

/* What HANDLE stands for, or NULL: it was released, or never was one. Locked. */
static struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
	return sim_blocks_find(&handles, (uintptr_t)handle) ? (struct physical *)(uintptr_t)handle : NULL;
}

bool sim_physical_get(CUmemGenericAllocationHandle handle)
{
	struct physical *ph = physical_of(handle);

	if (ph)
		ph->refs++;
	return ph;
}

void sim_physical_put(CUmemGenericAllocationHandle handle)
{
	physical_put((struct physical *)(uintptr_t)handle);
}

size_t sim_physical_bytes(CUmemGenericAllocationHandle handle)
{
	struct physical *ph = physical_of(handle);

	return ph ? ph->bytes : 0;
}

/* A new file of BYTES in memory. */
static int memory_file(const char *name, size_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0)
		sim_host_limit("memfd_create failed", "raise `ulimit -n` (open files)");
	if (file_limit_grow(fd, (off_t)bytes))
		file_limit_end("making a file of simulated memory failed");
	return fd;
}

/* A file of its own, which another process that imports it knows by its name. */
CUmemGenericAllocationHandle sim_physical_new_multicast(size_t bytes)
{
	static const CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
	struct physical *ph = physical_new(bytes, -1, &prop);

	ph->fd = memory_file(MULTICAST_NAME, bytes);
	return (uintptr_t)ph;
}

static bool is_multicast(int fd)
{
	char path[64], target[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, MULTICAST_NAME);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	(void)option;
	if (!granularity || !prop)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = SIM_GRANULE;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
		     unsigned long long flags)
{
	int file = HOST_FILE;
	struct physical *ph;

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!handle || !prop || flags || !bytes || bytes % SIM_GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
		file = prop->location.id;
		if (file < 0 || file >= sim_nr_devices())
			return CUDA_ERROR_INVALID_DEVICE;
	}
	sim_lock();
	if (file != HOST_FILE && !sim_charge(file, bytes)) {
		sim_unlock();
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	ph = physical_new(bytes, file, prop);
	ph->offset = extent_take(&files[file], bytes);
	sim_unlock();
	*handle = (uintptr_t)ph;
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct physical *ph;

	sim_lock();
	ph = physical_of(handle);
	if (ph)
		physical_put(ph);
	sim_unlock();
	return ph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- addresses ------------------------------------------------------------------------------- */

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t bytes, size_t align, CUdeviceptr hint,
			     unsigned long long flags)
{
	struct sim_block block = { .kind = SIM_RESERVED, .bytes = bytes, .requested_bytes = bytes };

	(void)hint;
	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!ptr || !bytes || bytes % SIM_GRANULE || flags || (align & (align - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	block.start = (uintptr_t)sim_map(bytes, align > SIM_GRANULE ? align : SIM_GRANULE, PROT_NONE);
	sim_lock();
	sim_blocks_add(&reservations, &block);
	sim_unlock();
	*ptr = block.start;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t bytes)
{
	CUresult ret = CUDA_ERROR_INVALID_VALUE;
	struct sim_block *found, block;

	sim_lock();
	found = sim_blocks_find(&reservations, ptr);
	if (found && found->bytes == bytes && sim_blocks_remove(&reservations, ptr, &block)) {
		sim_unmap((void *)ptr, bytes);
		ret = CUDA_SUCCESS;
	}
	sim_unlock();
	return ret;
}

static bool reserved(CUdeviceptr ptr, size_t bytes)
{
	struct sim_block *r = sim_blocks_find(&reservations, ptr);

	return r && bytes <= r->bytes && ptr - r->start <= r->bytes - bytes;
}

/*
 * What was written is remembered by address: where memory has several, or another process may write it, all of
 * them count as written, and reading them reads the memory itself.
 */
static void show(struct physical *ph, uintptr_t at, size_t bytes)
{
	if (!ph->shown_at && ph->file >= 0) {
		ph->shown_at = at;
		return;
	}
	if (ph->shown_at)
		sim_dirty((void *)ph->shown_at, bytes);
	sim_dirty((void *)at, bytes);
}

CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	struct sim_block block = {
		.kind = SIM_MAPPED, .start = ptr, .bytes = bytes, .requested_bytes = bytes
	};
	CUresult ret = CUDA_SUCCESS;
	struct physical *ph;
	int fd;

	if (!bytes || bytes % SIM_GRANULE || ptr % SIM_GRANULE || flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	ph = physical_of(handle);
	if (!ph || offset > ph->bytes || bytes > ph->bytes - offset || !reserved(ptr, bytes) ||
	    sim_blocks_find(&sim_blocks, ptr)) {
		ret = CUDA_ERROR_INVALID_VALUE;
	} else {
		fd = ph->file < 0 ? ph->fd : file_descriptor(&files[ph->file]);
		if (mmap((void *)ptr, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
			 (off_t)(ph->offset + offset)) == MAP_FAILED)
			sim_host_limit("mmap of simulated device memory failed", "raise vm.max_map_count");
		ph->refs++;
		block.owner = ph;
		block.device =
		    ph->prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? ph->prop.location.id : 0;
		sim_blocks_add(&sim_blocks, &block);
		show(ph, ptr, bytes);
	}
	sim_unlock();
	return ret;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
	int prot = PROT_NONE;

	if (!desc || !count || !bytes || bytes % SIM_GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			prot |= PROT_READ | PROT_WRITE;
		else if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
			prot |= PROT_READ;
	}
	if (!mprotect((void *)ptr, bytes, prot))
		return CUDA_SUCCESS;
	if (errno == ENOMEM && sim_pointer_device((void *)ptr) >= 0)
		sim_host_limit("mprotect of simulated device memory failed", "raise vm.max_map_count");
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	if (!flags || !location || sim_pointer_device((void *)ptr) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

/* Whether mappings, and nothing else, fill [PTR, PTR + BYTES) from edge to edge. Locked. */
static bool fully_mapped(CUdeviceptr ptr, size_t bytes)
{
	CUdeviceptr at = ptr, end = ptr + bytes;

	while (at < end) {
		struct sim_block *b = sim_blocks_find(&sim_blocks, at);

		if (!b || b->kind != SIM_MAPPED || b->start != at)
			return false;
		at += b->bytes;
	}
	return at == end;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
	struct sim_block block;

	if (!bytes || bytes % SIM_GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!fully_mapped(ptr, bytes)) {
		sim_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	sim_forget((void *)ptr, bytes);
	if (mmap((void *)ptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
		 0) == MAP_FAILED)
		sim_host_limit("unmapping simulated device memory failed", "raise vm.max_map_count");
	for (CUdeviceptr at = ptr; at < ptr + bytes; at += block.bytes) {
		sim_blocks_remove(&sim_blocks, at, &block);
		if (((struct physical *)block.owner)->shown_at == at)
			((struct physical *)block.owner)->shown_at = 0;
		physical_put(block.owner);
	}
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	struct sim_block *block;

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	block = sim_blocks_find(&sim_blocks, (uintptr_t)address);
	if (block && block->kind == SIM_MAPPED) {
		((struct physical *)block->owner)->refs++;
		*handle = (uintptr_t)block->owner;
	} else {
		block = NULL;
	}
	sim_unlock();
	return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						CUmemGenericAllocationHandle handle)
{
	struct physical *ph;

	sim_lock();
	ph = physical_of(handle);
	if (ph && prop)
		*prop = ph->prop;
	sim_unlock();
	return ph && prop ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- sharing with other processes ------------------------------------------------------------ */

/*
 * The descriptor handed out is a memory file of its own, of the handle's size: contents are not shared, which
 * is the same to a program whose kernels do not run, and the importer is not charged.
 */
CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags)
{
	bool is_shared = false;
	struct physical *ph;
	size_t bytes;

	sim_lock();
	ph = physical_of(handle);
	bytes = ph ? ph->bytes : 0;
	if (ph && ph->file < 0)
		is_shared = is_multicast(ph->fd);
	sim_unlock();
	if (!shareable || !bytes || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	*(int *)shareable = memory_file(is_shared ? MULTICAST_NAME : "simgpu-shared", bytes);
	return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle,
					CUmemAllocationHandleType type)
{
	int device, fd = (int)(intptr_t)os_handle;
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location.type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUresult ret = sim_context_need(&device);
	struct physical *ph;
	struct stat st;

	if (ret)
		return ret;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!handle || fstat(fd, &st) || !st.st_size || st.st_size % (off_t)SIM_GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	prop.location.id = device;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		sim_host_limit("dup failed", "raise `ulimit -n` (open files)");
	sim_lock();
	ph = physical_new((size_t)st.st_size, -1, &prop);
	ph->fd = fd;
	if (is_multicast(fd))
		sim_multicast_new((uintptr_t)ph, 0);
	sim_unlock();
	*handle = (uintptr_t)ph;
	return CUDA_SUCCESS;
}

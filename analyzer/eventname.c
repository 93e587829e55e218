/* SPDX-License-Identifier: MIT */
/* Names of event kinds and memory spaces. */
#include "analyzer/eventname.h"

static const struct {
	const char *name, *aux;
} kinds[TFMT_NR_KINDS] = {
	[TFMT_NONE] = { "none", NULL },
	[TFMT_TENSOR_ALLOC] = { "tensor_alloc", "reserved_bytes" },
	[TFMT_TENSOR_FREE] = { "tensor_free", "reserved_bytes" },
	[TFMT_TENSOR_OOM] = { "tensor_oom", "reserved_bytes" },
	[TFMT_DRIVER_ALLOC] = { "driver_alloc", NULL },
	[TFMT_DRIVER_FREE] = { "driver_free", NULL },
	[TFMT_FREE_FAILED] = { "free_failed", "error" },
	[TFMT_ALLOC_FAILED] = { "alloc_failed", "error" },
	[TFMT_HANDLE_RETAIN] = { "handle_retain", NULL },
	[TFMT_MAP] = { "map", "handle" },
	[TFMT_UNMAP] = { "unmap", NULL },
	[TFMT_MEMORY_INFO] = { "memory_info", "total_bytes" },
	[TFMT_LOST] = { "lost", NULL },
	[TFMT_RESET] = { "reset", NULL },
	[TFMT_VALUE_READ] = { "value_read", NULL },
};

static const char *const spaces[] = {
	[TFMT_SPACE_DEVICE] = "device",     [TFMT_SPACE_PINNED] = "pinned",
	[TFMT_SPACE_MANAGED] = "managed",   [TFMT_SPACE_REGISTERED] = "registered",
	[TFMT_SPACE_HANDLE] = "handle",     [TFMT_SPACE_POOL] = "pool",
	[TFMT_SPACE_ARRAY] = "array",       [TFMT_SPACE_IPC] = "ipc",
	[TFMT_SPACE_RESERVED] = "reserved",
};

const char *event_kind_name(unsigned kind)
{
	return kind < TFMT_NR_KINDS ? kinds[kind].name : "unknown";
}

const char *event_space_name(unsigned space)
{
	return space < sizeof(spaces) / sizeof(spaces[0]) ? spaces[space] : "unknown";
}

const char *event_aux_name(unsigned kind)
{
	return kind < TFMT_NR_KINDS ? kinds[kind].aux : NULL;
}

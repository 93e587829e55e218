/* SPDX-License-Identifier: MIT */
/* Names of event kinds, memory spaces and objects. */
#include "analyzer/recording/eventname.h"

static const struct {
	const char *name, *aux;
} kinds[TFMT_NR_KINDS] = {
	[TFMT_NONE] = { "none", NULL },
	[TFMT_TENSOR_ALLOC] = { "tensor_alloc", "reserved_bytes" },
	[TFMT_TENSOR_FREE] = { "tensor_free", "reserved_bytes" },
	[TFMT_TENSOR_OOM] = { "tensor_oom", "reserved_bytes" },
	[TFMT_DRIVER_ALLOC] = { "driver_alloc", "context" },
	[TFMT_DRIVER_FREE] = { "driver_free", NULL },
	[TFMT_FREE_FAILED] = { "free_failed", "error" },
	[TFMT_ALLOC_FAILED] = { "alloc_failed", "error" },
	[TFMT_HANDLE_RETAIN] = { "handle_retain", NULL },
	[TFMT_MAP] = { "map", "handle" },
	[TFMT_UNMAP] = { "unmap", NULL },
	[TFMT_MEMORY_INFO] = { "memory_info", "total_bytes" },
	[TFMT_LOST] = { "lost", NULL },
	[TFMT_RESET] = { "reset", "context" },
	[TFMT_VALUE_READ] = { "value_read", NULL },
	[TFMT_OBJECT_NEW] = { "object_new", "detail" },
	[TFMT_OBJECT_GONE] = { "object_gone", NULL },
	[TFMT_OBJECT_SET] = { "object_set", "which" },
	[TFMT_GRAPH_LAUNCH] = { "graph_launch", "upload" },
	[TFMT_POOL_INFO] = { "pool_info", "used_bytes" },
	[TFMT_PROCESS_INFO] = { "process_info", "others_bytes" },
	[TFMT_RANGE_PUSH] = { "range_push", "category" },
	[TFMT_RANGE_POP] = { "range_pop", NULL },
	[TFMT_RANGE_START] = { "range_start", "range" },
	[TFMT_RANGE_END] = { "range_end", "range" },
	[TFMT_MARK] = { "mark", "category" },
	[TFMT_PHASE_BEGIN] = { "phase_begin", "depth" },
	[TFMT_PHASE_END] = { "phase_end", "depth" },
	[TFMT_ALLOCATOR] = { "allocator", "action" },
	[TFMT_UNHOOKED] = { "unhooked", "action" },
	[TFMT_SETTINGS] = { "settings", NULL },
	[TFMT_COPY] = { "copy", "source" },
};

static const char *const spaces[] = {
	[TFMT_SPACE_DEVICE] = "device",     [TFMT_SPACE_PINNED] = "pinned",
	[TFMT_SPACE_MANAGED] = "managed",   [TFMT_SPACE_REGISTERED] = "registered",
	[TFMT_SPACE_HANDLE] = "handle",     [TFMT_SPACE_POOL] = "pool",
	[TFMT_SPACE_ARRAY] = "array",       [TFMT_SPACE_IPC] = "ipc",
	[TFMT_SPACE_RESERVED] = "reserved", [TFMT_SPACE_GRAPH] = "graph",
	[TFMT_SPACE_MULTICAST] = "multicast", [TFMT_SPACE_POOL_HOST] = "pool_host",
	[TFMT_SPACE_HANDLE_HOST] = "handle_host", [TFMT_SPACE_HANDLE_IMPORTED] = "handle_imported",
};

static const char *const objects[] = {
	[TFMT_OBJECT_CONTEXT] = "context",     [TFMT_OBJECT_GREEN_CONTEXT] = "green_context",
	[TFMT_OBJECT_MODULE] = "module",       [TFMT_OBJECT_LIBRARY] = "library",
	[TFMT_OBJECT_POOL] = "pool",           [TFMT_OBJECT_GRAPH] = "graph",
	[TFMT_OBJECT_EXTERNAL] = "external",   [TFMT_OBJECT_MULTICAST] = "multicast",
	[TFMT_OBJECT_EXPORT] = "export",       [TFMT_OBJECT_COMMUNICATOR] = "communicator",
};

const char *event_kind_name(unsigned kind)
{
	return kind < TFMT_NR_KINDS ? kinds[kind].name : "unknown";
}

const char *event_space_name(unsigned space)
{
	return space < sizeof(spaces) / sizeof(spaces[0]) ? spaces[space] : "unknown";
}

const char *event_object_name(unsigned object)
{
	return object < sizeof(objects) / sizeof(objects[0]) ? objects[object] : "unknown";
}

bool event_has_text(unsigned kind)
{
	return kind == TFMT_RANGE_PUSH || kind == TFMT_RANGE_START || kind == TFMT_MARK || kind == TFMT_SETTINGS;
}

const char *event_aux_name(unsigned kind)
{
	return kind < TFMT_NR_KINDS ? kinds[kind].aux : NULL;
}

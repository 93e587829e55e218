/* SPDX-License-Identifier: MIT */
/*
 * NVTX: the ranges and marks with which programs and libraries name what they are doing.
 *
 * Every binary that uses NVTX has a copy of it of its own. At its first call a copy loads the library that the
 * variable NVTX_INJECTION64_PATH names and calls its InitializeInjectionNvtx2, which puts handlers into the copy's
 * tables. The constructor makes that variable name this library; a tool that it named before is called as well.
 *
 * A *domain* is a namespace of ranges, a *registered string* a text that the program knows by a handle. Both handles
 * are made here, or, where another tool is called as well, by that tool, so that functions which have no handler here
 * find what they expect.
 *
 * Before the first allocation there is no trace, and no file, thread or ring is made for NVTX's sake: ranges that
 * are open then are kept (nvtx_open.c) and entered when their thread first records.
 */
#ifndef IP_NVTX_H
#define IP_NVTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

struct ip_thread;

/* ---- the interface of injected libraries, as nvtx3/nvtxDetail/nvtxTypes.h fixes it ------------- */

#define NVTX_TABLE_CALLBACKS 1u   /* NVTX_ETID_CALLBACKS */
#define NVTX_NO_PUSH_POP_TRACKING (-2)

enum nvtx_module { NVTX_CORE = 1, NVTX_CORE2 = 5 };

/* Places in the tables of both modules. */
enum nvtx_core {
	NVTX_MARK_EX = 1,
	NVTX_MARK_A,
	NVTX_MARK_W,
	NVTX_START_EX,
	NVTX_START_A,
	NVTX_START_W,
	NVTX_END,
	NVTX_PUSH_EX,
	NVTX_PUSH_A,
	NVTX_PUSH_W,
	NVTX_POP,
	NVTX_NAME_THREAD_A = 14,
	NVTX_NAME_THREAD_W,
	NVTX_CORE_SIZE
};
enum nvtx_core2 {
	NVTX_DOMAIN_MARK = 1,
	NVTX_DOMAIN_START,
	NVTX_DOMAIN_END,
	NVTX_DOMAIN_PUSH,
	NVTX_DOMAIN_POP,
	NVTX_REGISTER_A = 10,
	NVTX_REGISTER_W,
	NVTX_DOMAIN_CREATE_A,
	NVTX_DOMAIN_CREATE_W,
	NVTX_CORE2_SIZE = 16
};

typedef void (*nvtx_function)(void);
typedef const void *(*nvtx_get_table)(uint32_t id);

struct nvtx_callbacks {
	size_t struct_bytes;
	int (*get_module)(int module, nvtx_function ***table, unsigned *size);
};

enum nvtx_message_type { NVTX_MESSAGE_ASCII = 1, NVTX_MESSAGE_WIDE = 2, NVTX_MESSAGE_REGISTERED = 3 };

struct nvtx_attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type;
	int32_t reserved;
	uint64_t payload;
	int32_t message_type; /* enum nvtx_message_type, 0 = none */
	union {
		const char *ascii;
		const wchar_t *wide;
		uint64_t registered;
	} message;
};

/* ---- hooks_nvtx.c ---- */

/* A handler, and the other tool's function of the same place (NULL without one). */
struct nvtx_handler {
	uint8_t module, id;
	nvtx_function function;
};
extern const struct nvtx_handler nvtx_handlers[];
extern const unsigned nvtx_nr_handlers;
extern nvtx_function nvtx_core_next[NVTX_CORE_SIZE], nvtx_core2_next[NVTX_CORE2_SIZE];

/* ---- nvtx_inject.c ---- */

/*
 * Name this library in the environment, for this process and its children; remembers a tool that was there before.
 * In the constructor of a process that may record. Uses no malloc.
 */
void nvtx_init(void);

bool nvtx_has_other(void); /* another tool hears all calls, too */

/* For the trace: "on", "chained to PATH", "on, but PATH cannot be loaded". Static storage. */
const char *nvtx_support(void);

/* ---- nvtx_names.c ---- */

#define NVTX_NAME_BYTES 512u /* longer names are cut */

/* A domain or a registered string. Lives as long as the process, and in its fork children. */
struct nvtx_name {
	uint64_t handle;
	_Atomic uint64_t cached; /* generation << 32 | id of its definition in the trace */
	uint32_t len;
	char text[];
};

/* Text in UTF-8, at most NVTX_NAME_BYTES of it; wide text is converted into buffer, other text stays where it is. */
struct nvtx_text {
	const char *text;
	size_t len;
	struct nvtx_name *registered; /* or NULL */
	char buffer[NVTX_NAME_BYTES];
};
void nvtx_text_ascii(struct nvtx_text *t, const char *text);
void nvtx_text_wide(struct nvtx_text *t, const wchar_t *text);
void nvtx_text_of(struct nvtx_text *t, const struct nvtx_attributes *a); /* NULL or unknown: empty */

/*
 * PyTorch's emit_nvtx numbers every operation: "aten::mm, seq = 7, op_id = 41, sizes = [...]". Leave the name: a
 * definition for each call of each operation would be most of the trace.
 */
void nvtx_text_cut_numbers(struct nvtx_text *t);

/* Keep a text under a handle, 0 = a new one. Returns the handle, or 0 when there is no room. Any thread. */
uint64_t nvtx_name_keep(uint64_t handle, const struct nvtx_text *t);
struct nvtx_name *nvtx_name_find(uint64_t handle); /* NULL if unknown */

/* Memory that is never given back and that fork children keep; NULL when it is used up. Any thread. */
void *nvtx_keep(size_t bytes);

/* The trace's ids of a text and of a domain's name (0 = the default one, or unknown). Recording, thread busy. */
uint32_t nvtx_text_id(const struct nvtx_text *t);
uint32_t nvtx_domain_id(uint64_t domain);

/* ---- nvtx_open.c ---- */

void nvtx_open_init(void); /* constructor */

/* Ranges of this thread, before its process records. */
void nvtx_open_push(uint64_t domain, uint32_t category, const struct nvtx_text *t);
void nvtx_open_pop(uint64_t domain);

/* Ranges that may end on another thread. False: there is none of this id here. */
void nvtx_open_start(uint64_t id, uint64_t domain, const struct nvtx_text *t);
bool nvtx_open_end(uint64_t id);

/* What a thread is called by its system id; name is left as it is when that is not known. */
#define NVTX_THREAD_BYTES 48u
void nvtx_name_thread(uint32_t tid, const struct nvtx_text *t);
void nvtx_thread_name(uint32_t tid, char name[static NVTX_THREAD_BYTES]);

/* A thread has got its ring (busy is set): enter into the trace what is open. */
void nvtx_replay(struct ip_thread *thread);

/* One event of NVTX: name and domain as the trace's ids. Recording, thread busy. */
void nvtx_record(struct ip_thread *thread, uint8_t kind, uint32_t name, uint32_t domain, uint64_t aux);

#endif

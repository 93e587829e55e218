/* SPDX-License-Identifier: MIT */
/*
 * Settings from the environment, read once in the constructor (the allocator's when recording begins), and the
 * launcher's facts about this process.
 */
#ifndef IP_ENV_H
#define IP_ENV_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_ENV_NOTES 16u
#define IP_KEEP_LEAST (1ull << 20) /* of VRAMTRACE_KEEP; run --keep says it, too */

#define IP_NAMES_LEAST (1ull << 20) /* of VRAMTRACE_NAMES_MEMORY */

enum ip_stacks { IP_STACKS_PYTHON, IP_STACKS_FULL, IP_STACKS_NONE };
enum ip_rings { IP_RINGS_AUTO, IP_RINGS_SHM, IP_RINGS_MEMORY, IP_RINGS_FOLDER }; /* storage.c has the order */
enum ip_names { IP_NAMES_AUTO, IP_NAMES_OOM, IP_NAMES_OFF }; /* OOM: only when memory has run out */
enum ip_cupti_mode { IP_CUPTI_OFF, IP_CUPTI_ON, IP_CUPTI_AUTO }; /* AUTO: where no profiler can be hurt by it */

struct ip_env {
	char output[PATH_MAX];    /* recording directory, absolute, expanded */
	char job[256];
	char host[256];
	char program[256];        /* base name of argv[0] */
	char script[256];         /* the Python script or module, "" if none */
	const char *argv;         /* the whole command line, quoted for a shell; NULL unless it is asked for */
	char exe[PATH_MAX];
	char temporary[512];      /* folder for a ring file that cannot lie beside its trace */
	char rank[32], local_rank[32], world_size[32]; /* "" if not launched as a rank */
	char ranks_run[4000];     /* of a simulated job: "0,17", the only ranks that run; "" = all */
	char allocator_conf[512];
	char simulate[64];        /* profile of the simulated GPU, "" on a real one */
	char note[IP_ENV_NOTES][256]; /* settings that could not be understood, for the trace */
	unsigned nr_notes;
	enum ip_stacks stacks;
	enum ip_rings rings;
	char keeper[64];          /* the socket of the `run` that keeps sealed memory, "" = none */
	enum ip_cupti_mode cupti;
	unsigned unwinder;        /* enum unwind_choice (unwind.h) */
	enum ip_names names;
	uint64_t names_bytes;     /* of memory for a copy that looks for names; 0 = by the machine's */
	uint64_t names_seconds;   /* of time; 0 = the usual */
	bool tracker;             /* have PyTorch's allocator tell of itself */
	uint64_t keep_bytes;      /* the trace may have, the oldest is dropped; 0 = as many as it takes */
	uint64_t keep_steps;      /* of training, to be kept if there is room; 0 = as many as there is room for */
	uint64_t sample_bytes;    /* allocated between two samples of what the driver has in use; 0 = none are taken */
};

extern struct ip_env ip_env;

/*
 * Read settings and process facts. Makes VRAMTRACE_JOB and VRAMTRACE_OUTPUT part of the environment, so that
 * child processes join this recording; uses no malloc. Constructor only (single thread).
 */
void ip_env_init(int argc, char **argv);

/*
 * The program's arguments, for a call before main() has them: as the kernel keeps them. Not NULL; *argc may be 0.
 */
char **ip_env_arguments(int *argc);

/*
 * What PyTorch's allocator is told. Programs set that themselves, too, before they first use the device. For a thread
 * that is calling CUDA, not for the drain: PyTorch reads the same variables on its way there, so a setenv() of another
 * thread is in nobody's way that was not in PyTorch's.
 */
void ip_env_read_allocator(void);

/* Whether this process is one of those that VRAMTRACE_FILTER names. After ip_env_init(). */
bool ip_env_is_chosen(void);

/*
 * Make NAME=value part of the environment, of this process and its children, without malloc. Constructor only.
 */
void ip_env_export(const char *name, const char *value);

/* ---- env_check.c; constructor only ---- */

/* Note for the trace what could not be understood; beyond IP_ENV_NOTES nothing is kept. */
void ip_env_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Which of the values a variable has; `otherwise` if it is not set, and, with a note, if it has another. */
unsigned ip_env_choose(const char *variable, const char *const *values, unsigned nr, unsigned otherwise);

/* A size, "2GiB"; 0 if the variable is not set, or, with a note, if it is none of at least `least` bytes. */
uint64_t ip_env_size(const char *variable, uint64_t least);

/* A number from 1 to `most`; 0 if the variable is not set, or, with a note, if it is none. */
uint64_t ip_env_number(const char *variable, uint64_t most);

/* Note the variables that begin like ours and mean nothing. */
void ip_env_check_names(void);

/* The setting as text, for the trace. */
const char *ip_stacks_name(enum ip_stacks s);

#endif

/* SPDX-License-Identifier: MIT */
/* Settings from the environment, read once in the constructor, and the launcher's facts about this process. */
#ifndef IP_ENV_H
#define IP_ENV_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum ip_stacks { IP_STACKS_PYTHON, IP_STACKS_FULL, IP_STACKS_NONE };

struct ip_env {
	char output[PATH_MAX];    /* recording directory, absolute, expanded */
	char job[256];
	char host[256];
	char program[256];        /* base name of argv[0] */
	char script[256];         /* the Python script or module, "" if none */
	char exe[PATH_MAX];
	char temporary[512];      /* folder for a ring file that cannot lie beside its trace */
	char rank[32], local_rank[32], world_size[32]; /* "" if not launched as a rank */
	char ranks_run[4000];     /* of a simulated job: "0,17", the only ranks that run; "" = all */
	char allocator_conf[512];
	char simulate[64];        /* profile of the simulated GPU, "" on a real one */
	char note[256];           /* a setting that could not be understood, for the trace */
	enum ip_stacks stacks;
};

extern struct ip_env ip_env;

/*
 * Read settings and process facts. Makes VRAMTRACE_JOB and VRAMTRACE_OUTPUT part of the environment, so that
 * child processes join this recording; uses no malloc. Constructor only (single thread).
 */
void ip_env_init(void);

/* The setting as text, for the trace. */
const char *ip_stacks_name(enum ip_stacks s);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A command line of torchrun, taken apart: with `run --ranks` we start the ranks ourselves, so the launcher's part is
 * read and left out, and what it would start for every rank remains.
 */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/launch/ranks.h"
#include "analyzer/recording/basename.h"

/* What of it matters here. */
struct torchrun {
	const char *interpreter;
	const char *nr_nodes, *nr_per_node; /* NULL = not given */
	bool is_module, has_no_python;
	const char *const *rest; /* script and its arguments */
};

/* Options that are followed by a value; those without are flags. A dash may be an underscore. */
static const char *const with_value[] = {
	"nnodes",      "nproc-per-node", "rdzv-backend", "rdzv-endpoint",	"rdzv-id",	    "rdzv-conf",
	"max-restarts", "monitor-interval", "start-method", "event-log-handler", "role",	    "log-dir",
	"redirects",   "tee",		  "local-ranks-filter", "node-rank",	"master-addr",	    "master-port",
	"local-addr",  "logs-specs",	  "numa-binding",	"signals-to-handle", "duplicate-stdout-filters",
	"duplicate-stderr-filters", NULL
};

static bool same_name(const char *given, size_t len, const char *name)
{
	for (size_t i = 0; i < len; i++)
		if ((given[i] == '_' ? '-' : given[i]) != name[i])
			return false;
	return !name[len];
}

static bool takes_value(const char *name, size_t len)
{
	for (size_t i = 0; with_value[i]; i++)
		if (same_name(name, len, with_value[i]))
			return true;
	return false;
}

/* The launcher's own options: all up to the script. */
static void read_options(struct torchrun *t, const char *const *argv)
{
	for (; *argv && **argv == '-' && strcmp(*argv, "--"); argv++) {
		const char *name = *argv + strspn(*argv, "-"), *value = strchr(name, '=');
		size_t len = value ? (size_t)(value - name) : strlen(name);

		if (argv[0][1] != '-') {
			t->is_module |= !strcmp(name, "m");
			/* -r and -t, --redirects and --tee: the value may stick to the letter. */
			if ((*name == 'r' || *name == 't') && !name[1] && argv[1])
				argv++;
			continue;
		}
		if (value)
			value++;
		else if (takes_value(name, len) && argv[1])
			value = *++argv;
		if (same_name(name, len, "nnodes"))
			t->nr_nodes = value;
		else if (same_name(name, len, "nproc-per-node"))
			t->nr_per_node = value;
		t->is_module |= same_name(name, len, "module");
		t->has_no_python |= same_name(name, len, "no-python");
	}
	t->rest = *argv && !strcmp(*argv, "--") ? argv + 1 : argv;
}

/* The interpreter in the first line of the launcher's script, which PATH finds; NULL if there is none to be seen. */
static const char *interpreter_of(const char *script)
{
	static char line[PATH_MAX];
	const char *path = getenv("PATH");
	char whole[PATH_MAX];
	FILE *f = strchr(script, '/') ? fopen(script, "re") : NULL;
	char *start;

	while (!f && path && *path) {
		size_t len = strcspn(path, ":");

		snprintf(whole, sizeof(whole), "%.*s/%s", (int)len, path, script);
		f = !access(whole, X_OK) ? fopen(whole, "re") : NULL;
		path += len + (path[len] != 0);
	}
	if (!f || !fgets(line, sizeof(line), f) || strncmp(line, "#!", 2))
		line[0] = 0;
	if (f)
		fclose(f);
	start = line + (line[0] ? 2 : 0);
	start += strspn(start, " \t");
	if (!strncmp(start, "/usr/bin/env ", 13))
		start += 13 + strspn(start + 13, " \t");
	start[strcspn(start, " \t\r\n")] = 0;
	return strncmp(basename_of(start), "python", 6) ? NULL : start;
}

/* Is argv a launcher? Then read it; 1 if it is, 0 if not, negative after a message. */
static int read_launcher(struct torchrun *t, const char *const *argv)
{
	const char *name = basename_of(argv[0]);

	if (!strcmp(name, "torchrun")) {
		t->interpreter = interpreter_of(argv[0]);
		if (!t->interpreter) {
			message_error("cannot tell which Python '%s' belongs to; write 'python SCRIPT ...' instead of "
				      "'torchrun ... SCRIPT ...'",
				      argv[0]);
			return -1;
		}
		read_options(t, argv + 1);
		return 1;
	}
	if (strncmp(name, "python", 6) || !argv[1] || strcmp(argv[1], "-m") || !argv[2] ||
	    (strcmp(argv[2], "torch.distributed.run") && strcmp(argv[2], "torch.distributed.launch")))
		return 0;
	t->interpreter = argv[0];
	read_options(t, argv + 3);
	return 1;
}

/* "4", or "2:4" (as many as there are, at most 4), or a word ("gpu", "auto"): `otherwise`. 0 when malformed. */
static unsigned long count_of(const char *text, unsigned long otherwise)
{
	const char *colon = text ? strchr(text, ':') : NULL;
	char *end;
	unsigned long n;

	if (!text || isalpha((unsigned char)*text))
		return otherwise;
	n = strtoul(colon ? colon + 1 : text, &end, 10);
	return *end ? 0 : n;
}

static int compare_size(struct ranks *r, const struct torchrun *t, bool has_gpus_per_node)
{
	unsigned long per_node = count_of(t->nr_per_node, t->nr_per_node ? r->gpus_per_node : 1);
	unsigned long nodes = count_of(t->nr_nodes, 1);

	if (has_gpus_per_node && per_node != r->gpus_per_node) {
		message_error("'--gpus-per-node %u' does not fit '--nproc-per-node %lu'", r->gpus_per_node, per_node);
		return RUN_TROUBLE;
	}
	if (!per_node || per_node > r->world_size || nodes * per_node != r->world_size) {
		message_error("the launcher starts %lu x %lu ranks, '--simulate' says %u; make them agree, or write "
			      "'python SCRIPT ...' without the launcher",
			      nodes, per_node, r->world_size);
		return RUN_TROUBLE;
	}
	r->gpus_per_node = (unsigned)per_node;
	return 0;
}

/* python -u [-m] SCRIPT ..., as torchrun starts it. */
static void compose(struct ranks *r, const struct torchrun *t)
{
	size_t nr = 0, n = 0;

	while (t->rest[nr])
		nr++;
	r->program = heap_alloc(nr + 4, sizeof(*r->program));
	if (!t->has_no_python) {
		r->program[n++] = t->interpreter;
		r->program[n++] = "-u";
		if (t->is_module)
			r->program[n++] = "-m";
	}
	memcpy(r->program + n, t->rest, nr * sizeof(*t->rest));
}

int ranks_understand_launcher(struct ranks *r, const char *const *argv, bool has_gpus_per_node)
{
	struct torchrun t = { 0 };
	int found = read_launcher(&t, argv), status;

	if (found <= 0)
		return found ? RUN_TROUBLE : 0;
	if (!t.rest || !*t.rest) {
		message_error("'%s' is given no script to run", argv[0]);
		return RUN_TROUBLE;
	}
	status = compare_size(r, &t, has_gpus_per_node);
	if (!status)
		compose(r, &t);
	return status;
}

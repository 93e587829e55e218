/* SPDX-License-Identifier: MIT */
/* GPU files: what they may say, and writing them. */
#include "analyzer/gpu/gpufile.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/heap.h"

#define MAX_BYTES (UINT64_C(1) << 46)

const struct gpufile_key gpufile_keys[GPUFILE_NR_KEYS] = {
	{ "device", "capacity_bytes", 1 << 20, MAX_BYTES, "the total of cudaMemGetInfo" },
	{ "device", "compute_capability", 50, 999, "90 is 9.0" },
	{ "device", "sms", 1, 4096, "streaming multiprocessors" },
	{ "device", "smem_optin_bytes", 1, 1 << 24, "shared memory a block can have" },
	{ "device", "smem_sm_bytes", 1, 1 << 24, "shared memory of an SM" },
	{ "device", "threads_per_sm", 1, 1 << 16, "resident threads" },
	{ "device", "blocks_per_sm", 1, 1 << 12, "resident blocks" },
	{ "device", "l2_bytes", 1, INT32_MAX, "second-level cache" },
	{ "device", "bus_bits", 1, 1 << 16, "width of the memory bus" },
	{ "device", "clock_khz", 1, INT32_MAX, "highest clock of the SMs" },
	{ "device", "memory_clock_khz", 1, INT32_MAX, "highest clock of the memory" },
	{ "device", "watts", 1, 1 << 16, "power limit" },
	{ "memory", "context_bytes", 0, MAX_BYTES, "taken when a process first uses the device" },
	{ "memory", "code_bytes", 0, MAX_BYTES, "taken beside it when kernels are loaded" },
	{ "memory", "nccl_channels", 0, 1 << 16, "without [[nccl]]: channels of a communicator" },
	{ "memory", "nccl_connection_bytes", 0, MAX_BYTES, "without [[nccl]]: what each of them takes" },
	{ "memory", "cublas_handle_bytes", 0, MAX_BYTES, "taken by cublasCreate" },
	{ "memory", "cublas_workspace_bytes", 0, MAX_BYTES,
	  "taken by a routine on a handle without a workspace" },
	{ "memory", "cudnn_handle_bytes", 0, MAX_BYTES, "taken by cudnnCreate" },
	{ "memory", "cusolver_handle_bytes", 0, MAX_BYTES, "taken by cusolverDnCreate" },
};

static bool is_path(const char *text)
{
	size_t n = strlen(text);

	return strchr(text, '/') || (n > 5 && !strcmp(text + n - 5, ".toml"));
}

const char *gpufile_named(const char *text, unsigned long *count)
{
	char *end = (char *)text;

	*count = 1;
	/* A file may itself be called 2x4090.toml. */
	if (is_path(text) && !access(text, F_OK))
		return text;
	if (isdigit((unsigned char)*text))
		*count = strtoul(text, &end, 10);
	if (end != text && *end == 'x' && is_path(end + 1))
		return end + 1;
	*count = 1;
	return is_path(text) ? text : NULL;
}

bool gpufile_name_is_usable(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n && n <= 64 && !name[n];
}

void gpufile_set(struct gpufile *g, const char *name, uint64_t value)
{
	for (int i = 0; i < GPUFILE_NR_KEYS; i++) {
		if (!strcmp(gpufile_keys[i].name, name)) {
			g->has[i] = true;
			g->value[i] = value;
		}
	}
}

void gpufile_add_answer(struct gpufile *g, const char *question, const char *what, uint64_t bytes)
{
	g->answers = heap_need(realloc(g->answers, (g->nr_answers + 1) * sizeof(*g->answers)));
	g->answers[g->nr_answers++] =
		(struct gpufile_answer){ heap_copy(question), what ? heap_copy(what) : NULL, bytes };
}

bool gpufile_has_answer(const struct gpufile *g, const char *question)
{
	for (unsigned i = 0; i < g->nr_answers; i++) {
		if (!strcmp(g->answers[i].question, question))
			return true;
	}
	return false;
}

void gpufile_write_model(const struct gpufile *g, FILE *out)
{
	if (g->product)
		fprintf(out, "product %s\n", g->product);
	for (int i = 0; i < GPUFILE_NR_KEYS; i++) {
		if (g->has[i])
			fprintf(out, "%s %" PRIu64 "\n", gpufile_keys[i].name, g->value[i]);
	}
	for (unsigned i = 0; i < g->nr_nccl; i++)
		fprintf(out, "nccl %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", g->nccl[i].ranks,
			g->nccl[i].init_bytes, g->nccl[i].first_bytes);
	for (unsigned i = 0; i < g->nr_answers; i++)
		fprintf(out, "answer %" PRIu64 " %s\n", g->answers[i].bytes, g->answers[i].question);
}

/* A TOML basic string. */
static void write_string(const char *text, FILE *out)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
	}
	fputc('"', out);
}

static void write_section(const struct gpufile *g, const char *section, FILE *out)
{
	fprintf(out, "\n[%s]\n", section);
	if (!strcmp(section, "device") && g->product) {
		fputs("product = ", out);
		write_string(g->product, out);
		fputc('\n', out);
	}
	for (int i = 0; i < GPUFILE_NR_KEYS; i++) {
		int width = 26 - (int)strlen(gpufile_keys[i].name);

		if (g->has[i] && !strcmp(gpufile_keys[i].section, section))
			fprintf(out, "%s = %-*" PRIu64 " # %s\n", gpufile_keys[i].name, width + 12,
				g->value[i], gpufile_keys[i].what);
	}
}

static void write_nccl(const struct gpufile_nccl *row, FILE *out)
{
	fprintf(out, "[[nccl]]\nranks = %" PRIu64 "\n", row->ranks);
	fprintf(out, "init_bytes = %" PRIu64 "\n", row->init_bytes);
	fprintf(out, "first_bytes = %" PRIu64 "\n", row->first_bytes);
}

static void write_answer(const struct gpufile_answer *answer, FILE *out)
{
	fputs("[[answer]]\n", out);
	if (answer->what) {
		fputs("what = ", out);
		write_string(answer->what, out);
		fputc('\n', out);
	}
	fprintf(out, "bytes = %" PRIu64 "\nquestion = ", answer->bytes);
	write_string(answer->question, out);
	fputc('\n', out);
}

void gpufile_write_toml(const struct gpufile *g, const char *header, FILE *out)
{
	fprintf(out, "%s\nname = \"%s\"\n", header, g->name);
	fprintf(out, "base = \"%s\"  # this profile holds where the file says nothing\n", g->base);
	write_section(g, "device", out);
	write_section(g, "memory", out);
	if (g->nr_nccl)
		fputs("\n# What a communicator takes of each rank's GPU: when it is made, and at its first\n"
		      "# operation. A row holds up to the number of ranks of the next one.\n",
		      out);
	for (unsigned i = 0; i < g->nr_nccl; i++)
		write_nccl(&g->nccl[i], out);
	if (g->nr_answers)
		fputs("\n# Sizes that libraries answered and the program allocates.\n", out);
	for (unsigned i = 0; i < g->nr_answers; i++)
		write_answer(&g->answers[i], out);
}

void gpufile_release(struct gpufile *g)
{
	free(g->name);
	free(g->base);
	free(g->product);
	for (unsigned i = 0; i < g->nr_answers; i++) {
		free(g->answers[i].question);
		free(g->answers[i].what);
	}
	free(g->answers);
	memset(g, 0, sizeof(*g));
}

/* SPDX-License-Identifier: MIT */
/* vramtrace gpu: is there a real GPU whose driver answers? */
#include <inttypes.h>

#include "analyzer/base/human.h"
#include "analyzer/command.h"
#include "analyzer/gpu/realgpu.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"

struct gpu_opts {
	struct emit_opts emit;
};

static const struct opt gpu_optv[] = {
	EMIT_JSON_OPTIONS(struct gpu_opts, emit),
	OPT_END,
};

static const struct opt_help gpu_help = {
	.command = "gpu",
	.purpose = "Say which GPUs of NVIDIA's answer on this machine (exit 0), or why none does (1).",
	.usage = "[options]",
	.example = "vramtrace gpu || echo 'only a simulated one'",
	.options = gpu_optv,
	.operands = opt_no_paths,
};

static void show_device(struct emit *e, const struct realgpu *g, unsigned i)
{
	char size[HUMAN_MAX];

	emit_object_begin(e, NULL, NULL);
	emit_uint(e, "device", NULL, i);
	emit_string(e, "name", NULL, g->device[i].name);
	emit_uint(e, "bytes", NULL, g->device[i].bytes);
	emit_object_end(e);
	emit_text(e, "GPU %u: %s, %s", i, g->device[i].name, human_bytes(size, g->device[i].bytes));
}

int cmd_gpu(int argc, const char **argv)
{
	static struct realgpu g;
	struct gpu_opts o = { 0 };
	enum opt_result parsed = opt_parse(&gpu_help, &argc, argv, &o);
	struct emit *e;
	bool found;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 1)
		return opt_wrong(&gpu_help, "it takes no arguments");
	found = realgpu_ask(&g);
	e = emit_open(stdout, &o.emit, "vramtrace/gpu/1");
	emit_bool(e, "found", NULL, found);
	emit_string(e, "reason", NULL, found ? NULL : g.why);
	emit_uint(e, "driver_version", NULL, (uint64_t)g.driver_version);
	emit_array_begin(e, "devices", NULL);
	for (unsigned i = 0; i < g.nr && i < REALGPU_MAX; i++)
		show_device(e, &g, i);
	emit_array_end(e);
	if (!found)
		emit_text(e, "no GPU of NVIDIA's answers here: %s", g.why);
	else
		emit_text(e, "its driver is one for CUDA %d.%d", g.driver_version / 1000, g.driver_version % 1000 / 10);
	return emit_close(e) ? CMD_TROUBLE : found ? CMD_FINE : CMD_FINDING;
}

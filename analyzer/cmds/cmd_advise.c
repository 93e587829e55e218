/* SPDX-License-Identifier: MIT */
/* vramtrace advise: what would have made the peak smaller, and by how much. */
#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/pages/print_advice.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/ui/options.h"

struct advise_opts {
	bool always, all;
	struct emit_opts emit;
};

static const struct opt advise_optv[] = {
	OPT_FLAG(0, "always", struct advise_opts, always, "also where memory was not scarce"),
	OPT_FLAG(0, "all", struct advise_opts, all, "all that was found, not only the five largest"),
	EMIT_JSON_OPTIONS(struct advise_opts, emit),
	OPT_END
};

static const struct opt_help advise_help = {
	.command = "advise",
	.purpose = "Say what would have made the peak smaller, and by how much.",
	.usage = "[options] RECORDING",
	.example = "vramtrace advise train.vtr\nvramtrace advise --always train.vtr",
	.options = advise_optv,
};

static void advise_text(struct emit *e, const struct replay *m, const struct replay_device *d,
			const struct advices *all, bool is_needed)
{
	char title[256], size[HUMAN_MAX];

	if (!d || !d->has_tensors) {
		emit_text(e, "PyTorch allocated no GPU memory in this recording.");
		return;
	}
	emit_heading(e, "%s", print_device_title(title, sizeof(title), m, d));
	if (!is_needed && !d->capacity_bytes)
		emit_text(e, "Whether memory was scarce is not known: %s reserved of an unknown capacity. --always looks anyway.",
			  human_bytes(size, d->books->reserved_peak_bytes));
	else if (!is_needed)
		emit_text(e, "Memory was not scarce: %s of %s reserved. --always looks anyway.",
			  human_bytes(size, d->books->reserved_peak_bytes), human_bytes(title, d->capacity_bytes));
	else if (!all->device)
		emit_text(e, "No advice: the blocks of the peak are not known one by one.");
	else if (!all->nr)
		emit_text(e, "No advice: nothing known would have saved 2%% of the peak.");
	else
		emit_text(e, "The step of %s, replayed with one change at a time:",
			  all->at_failure ? "the failure" : "the peak");
}

static int advise_print(const struct replay *m, const struct failures *failures, const struct advise_opts *o)
{
	struct emit *e = emit_open(stdout, &o->emit, "vramtrace/advise/1");
	const struct replay_device *d = failures_worst_device(failures, m);
	bool is_needed = d && (o->always || advices_are_needed(d, failures));
	unsigned most = o->all ? ADVICE_MAX : ADVICE_USUAL;
	struct advices all = ADVICES_INIT;
	int err = 0, ret;

	if (is_needed && d->has_tensors)
		err = advices_find(&all, d, failures, NULL);
	print_recording(e, m);
	if (!err && emit_is_text(e)) {
		advise_text(e, m, d, &all, is_needed);
		print_advice(e, &all, most);
	}
	json_advice(e, &all, most);
	ret = err ? emit_fail(e, "cannot read '%s' a second time", m->recording.path) : emit_close(e);
	advices_release(&all);
	return ret;
}

int cmd_advise(int argc, const char **argv)
{
	struct advise_opts o = { 0 };
	struct failures failures = FAILURES_INIT;
	struct replay_options load = { .lives = true, .observe = failures_observe, .ctx = &failures,
				      .observe_no_frees = true };
	struct replay m = REPLAY_INIT;
	enum opt_result parsed = opt_parse(&advise_help, &argc, argv, &o);
	int ret, damaged = CMD_FINE;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&advise_help, argc < 2 ? "missing RECORDING" : "unexpected argument '%s'",
				 argv[argc - 1]);
	ret = rules_load();
	if (!ret)
		ret = replay_load(&m, argv[1], &load);
	if (!ret) {
		damaged = print_caveats(&m);
		ret = advise_print(&m, &failures, &o);
	}
	failures_release(&failures);
	replay_release(&m);
	return ret == CMD_FINE ? damaged : ret;
}

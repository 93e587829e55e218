/* SPDX-License-Identifier: MIT */
/* vramtrace whatif: the recorded job under other settings of PyTorch's allocator, on other GPUs, with other code. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/changes/changes.h"
#include "analyzer/command.h"
#include "analyzer/gpu/gpunames.h"
#include "analyzer/failures/failurewatch.h"
#include "analyzer/failures/fatal.h"
#include "analyzer/pages/print_autopsy.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/ui/options.h"
#include "analyzer/whatif/editedevents.h"
#include "analyzer/whatif/search.h"
#include "analyzer/whatifpages/print_whatif.h"

#define TOP_TEXT 8

struct whatif_opts {
	const char *conf, *gpu, *torch, *capacity, *python;
	int engine, policy;
	bool no_caching, search;
	struct opt_list without, scale, dtype, checkpoint;
	const char *batch;
	int64_t points;
	struct emit_opts emit;
};

enum engine { ENGINE_MODEL, ENGINE_TORCH };
static const char *const engine_names[] = { "model", "torch", NULL };

enum policy { POLICY_TORCH, POLICY_IDEAL };
static const char *const policy_names[] = { "torch", "ideal", NULL };

static const struct opt whatif_optv[] = {
	OPT_STRING('c', "conf", struct whatif_opts, conf, "SETTINGS", "as in PYTORCH_CUDA_ALLOC_CONF (the recorded ones)"),
	OPT_STRING(0, "capacity", struct whatif_opts, capacity, "SIZE", "on a GPU of this size; unlimited; unknown: which is enough"),
	OPT_STRING(0, "gpu", struct whatif_opts, gpu, "NAME", "on such a GPU, as run --simulate names them"),
	OPT_STRING(0, "torch", struct whatif_opts, torch, "VERSION", "as this version of PyTorch reads settings"),
	OPT_FLAG(0, "no-caching", struct whatif_opts, no_caching, "with PYTORCH_NO_CUDA_MEMORY_CACHING=1"),
	OPT_ENUM(0, "engine", struct whatif_opts, engine, engine_names, "torch: the installed PyTorch serves them, too"),
	OPT_STRING(0, "python", struct whatif_opts, python, "PYTHON", "that has PyTorch, for --engine torch (python3)"),
	OPT_FLAG(0, "search", struct whatif_opts, search, "try many settings, name the best"),
	OPT_LIST(0, "without", struct whatif_opts, without, "WHAT", "without a category, module, name or stack (more than once)"),
	OPT_LIST(0, "scale", struct whatif_opts, scale, "WHAT=FACTOR", "with as many bytes of it, as activation=0.5"),
	OPT_LIST(0, "dtype", struct whatif_opts, dtype, "WHAT=TYPE", "with it in another type, as optimizer_state=8bit"),
	OPT_LIST(0, "checkpoint", struct whatif_opts, checkpoint, "MODULES", "with modules computed again in backward"),
	OPT_STRING(0, "batch", struct whatif_opts, batch, "N", "with so many samples in each batch"),
	OPT_INT(0, "points", struct whatif_opts, points, "N", "figures at N points in time, too (none)"),
	OPT_ENUM(0, "policy", struct whatif_opts, policy, policy_names, "ideal: laid out, too, by who knows how long blocks live"),
	EMIT_OPTIONS(struct whatif_opts, emit),
	OPT_END
};

static const struct opt_help whatif_help = {
	.command = "whatif",
	.purpose = "Replay a recorded job under other allocator settings, on another GPU, or with other code.",
	.usage = "[options] RECORDING",
	.example = "vramtrace whatif --conf expandable_segments:True train.vtr\n"
		   "vramtrace whatif --gpu a100-40 train.vtr\n"
		   "vramtrace whatif --search train.vtr\n"
		   "vramtrace whatif --checkpoint 'model.layers.*' --batch 16 train.vtr",
	.options = whatif_optv,
};

static bool is_any_gpu(const struct whatif_opts *o)
{
	return o->capacity && !strcmp(o->capacity, "unknown");
}

/* What --capacity and --gpu say of every setting. */
static int read_gpu(const struct whatif_opts *o, struct whatif_setting *s)
{
	const char *profile;

	if (o->gpu && o->capacity)
		return opt_wrong(&whatif_help, "--gpu and --capacity do not go together");
	if (o->gpu) {
		profile = gpunames_find(o->gpu);
		if (!profile)
			return opt_wrong(&whatif_help, "there is no GPU '%s': take one of %s", o->gpu, gpunames_list());
		s->capacity = gpunames_capacity(profile);
	}
	if (!o->capacity)
		return CMD_FINE;
	s->is_endless = !strcmp(o->capacity, "unlimited");
	if (is_any_gpu(o))
		return o->search ? opt_wrong(&whatif_help, "--search and --capacity unknown do not go together") : CMD_FINE;
	if (!s->is_endless && (!human_parse_bytes(o->capacity, &s->capacity) || !s->capacity))
		return opt_wrong(&whatif_help, "--capacity takes a size, as 40GiB, unlimited or unknown, not '%s'", o->capacity);
	return CMD_FINE;
}

static int read_torch(const struct whatif_opts *o, struct whatif_setting *s)
{
	if (!o->torch)
		return CMD_FINE;
	s->version = allocconf_version(o->torch);
	if (s->version < ALLOCCONF_OLDEST || s->version > ALLOCCONF_NEWEST)
		return opt_wrong(&whatif_help, "--torch takes a version from 2.0 to 2.11, not '%s'", o->torch);
	return CMD_FINE;
}

static int read_setting(const struct whatif_opts *o, struct whatif_setting *s)
{
	struct allocconf conf;
	char why[256];
	int ret = read_gpu(o, s);

	if (!ret)
		ret = read_torch(o, s);
	if (ret)
		return ret;
	if (o->points < 0 || o->points > SERIES_STEPS)
		return opt_wrong(&whatif_help, "--points takes 0 to %d", SERIES_STEPS);
	if (o->points && (o->search || is_any_gpu(o)))
		return opt_wrong(&whatif_help, "--points are of one setting on one GPU");
	s->text = o->conf;
	s->is_uncached = o->no_caching;
	if (o->engine == ENGINE_TORCH && (o->search || is_any_gpu(o)))
		return opt_wrong(&whatif_help, "--engine torch serves one setting on one GPU");
	if (o->policy == POLICY_IDEAL && (o->search || is_any_gpu(o)))
		return opt_wrong(&whatif_help, "--policy ideal is beside one setting on one GPU");
	if (o->search && (o->conf || o->no_caching))
		return opt_wrong(&whatif_help, "--search tries settings of its own: it goes without --conf and --no-caching");
	if (o->conf && o->no_caching)
		return opt_wrong(&whatif_help, "--conf and --no-caching do not go together: without caching no setting counts");
	if (!allocconf_read(&conf, o->conf, s->version ? s->version : ALLOCCONF_NEWEST, why, sizeof(why)))
		return opt_wrong(&whatif_help, "--conf '%s': %s", o->conf, why);
	return CMD_FINE;
}

static int read_list(const struct opt_list *l, enum change_kind kind, struct changes *c)
{
	char why[256];

	for (unsigned i = 0; i < l->nr; i++)
		if (!changes_add(c, kind, l->value[i], why, sizeof(why)))
			return opt_wrong(&whatif_help, "--%s '%s': %s", change_names[kind], l->value[i], why);
	return CMD_FINE;
}

static int read_changes(const struct whatif_opts *o, struct changes *c)
{
	struct opt_list batch = { .value = { o->batch }, .nr = o->batch != NULL };
	int ret = read_list(&batch, CHANGE_BATCH, c);

	if (!ret)
		ret = read_list(&o->scale, CHANGE_SCALE, c);
	if (!ret)
		ret = read_list(&o->dtype, CHANGE_DTYPE, c);
	if (!ret)
		ret = read_list(&o->without, CHANGE_WITHOUT, c);
	return ret ? ret : read_list(&o->checkpoint, CHANGE_CHECKPOINT, c);
}

/* What is to be tried: the setting of the options twice, once with the least requests; or those of a search. */
struct attempts {
	struct whatif_setting setting[SEARCH_MAX];
	const char *gpu[SEARCH_MAX]; /* with --capacity unknown */
};

static size_t make_settings(const struct whatif_opts *o, const struct whatif_setting *asked, struct attempts *a)
{
	struct whatif_setting *settings = a->setting;
	size_t nr = 2;

	if (is_any_gpu(o))
		return search_gpus(settings, a->gpu, asked);
	if (o->search) {
		nr = search_settings(settings, asked->version ? asked->version : ALLOCCONF_NEWEST);
		for (size_t i = 0; i < nr; i++) {
			settings[i].version = asked->version;
			settings[i].capacity = asked->capacity;
			settings[i].is_endless = asked->is_endless;
		}
		return nr;
	}
	settings[0] = settings[1] = *asked;
	settings[1].is_least = true;
	return nr;
}

static struct replay_failure failure_of(const struct replay_process *p, const struct tried *t)
{
	uint64_t used = t->oom_reserved + t->oom_others;

	return (struct replay_failure){
		.path = p->path,
		.ordinal = t->oom_taking,
		.bytes = t->oom_bytes,
		.reserved_bytes = t->oom_reserved,
		.refused_bytes = t->oom_refused,
		.capacity_bytes = t->capacity,
		.free_bytes = used < t->capacity ? t->capacity - used : 0,
	};
}

/*
 * The autopsy of the request at which memory runs out, by reading the recording once more up to there; in JSON its findings.
 * Of what to do, nothing is computed: advice is about the job that was recorded.
 */
static int explain_failure(struct emit *e, const struct whatif *w, const struct replay *m)
{
	const struct whatif_device *d = NULL;
	struct failurewatch watch;
	struct replay_options load = failurewatch_options(&watch);
	struct replay_failure failure;
	struct advices none = ADVICES_INIT;
	struct autopsy a = AUTOPSY_INIT;
	struct replay again = REPLAY_INIT;
	const struct replay_device *device;
	struct editedevents edited = { 0 };
	struct replay_editor editor = { editedevents_next, &edited };
	int ret;

	for (size_t i = 0; i < w->nr_devices && !d; i++)
		if (w->device[i]->tried[0].is_over)
			d = w->device[i];
	if (!d) {
		print_autopsy_findings(e, NULL);
		return CMD_FINE;
	}
	failure = failure_of(d->process, &d->tried[0]);
	load.failure = &failure;
	if (d->edits) {
		failure.ordinal = d->tried[0].oom_event;
		editedevents_init(&edited, d->edits, d->failed_step);
		load.editor = &editor;
	}
	load.quiet = true;
	failurewatch_init(&watch);
	ret = rules_load();
	if (!ret)
		ret = replay_load(&again, m->recording.path, &load);
	device = ret ? NULL : fatal_device(&watch.failures, &again);
	if (device) {
		autopsy_make(&a, &again, device, &watch.failures);
		emit_blank(e);
		if (emit_is_text(e))
			print_autopsy(e, &a, &none, 0, false);
	}
	print_autopsy_findings(e, device ? &a : NULL);
	autopsy_release(&a);
	advices_release(&none);
	failurewatch_release(&watch);
	replay_release(&again);
	editedevents_release(&edited);
	return ret;
}

static int result_print(const struct whatif *w, const struct replay *m, const struct whatif_opts *o,
			const struct attempts *a, const struct torchengine *torch, const struct changes *c)
{
	struct emit *e = emit_open(stdout, &o->emit, "vramtrace/whatif/1");
	struct search_total total[SEARCH_MAX];
	struct whatif_view v = { .m = m, .conf = o->conf, .is_uncached = o->no_caching, .torch = torch,
				 .is_changed = c->nr > 0, .series = w->series, .nr_points = (uint32_t)o->points };
	int ret = CMD_FINE;

	print_recording(e, m);
	print_whatif_changes(e, c);
	if (o->search) {
		print_whatif_search(e, w, total, search_rank(w, total), TOP_TEXT);
		return emit_close(e);
	}
	for (size_t i = 0; i < m->nr_devices && !v.device; i++)
		if (whatif_of(w, &m->device[i]))
			v.device = &m->device[i];
	print_whatif_setting(e, &v);
	if (is_any_gpu(o)) {
		print_whatif_gpus(e, w, a->gpu);
		return emit_close(e);
	}
	emit_array_begin(e, "devices", NULL);
	for (size_t i = 0; i < m->nr_devices; i++) {
		v.device = &m->device[i];
		v.d = whatif_of(w, v.device);
		if (!v.d)
			continue;
		v.times_given = whatif_times_given(w, v.d);
		emit_blank(e);
		v.has_ideal = o->policy == POLICY_IDEAL && ideal_place(&whatif_of(w, v.device)->ideal, &v.ideal_bytes);
		print_whatif_device(e, &v);
	}
	emit_array_end(e);
	if (!emit_is_csv(e))
		ret = explain_failure(e, w, m);
	return emit_close(e) || ret ? CMD_TROUBLE : CMD_FINE;
}

/* The requests of a process, by PyTorch itself. */
static int serve_by_torch(struct torchengine *t, const struct whatif *w, const struct replay *m, const struct whatif_opts *o)
{
	const struct whatif_device *first = w->device[0];
	const char *recorded = first->process->allocator_conf;
	struct torchengine_gpu gpu = {
		.python = o->python ? o->python : "python3",
		.conf = o->conf ? o->conf : recorded ? recorded : "",
		.is_uncached = o->no_caching,
		.capacity = first->tried[0].capacity,
	};

	for (size_t i = 0; i < w->nr_devices; i++) {
		if (w->device[i]->process != first->process)
			return message_error("'%s' has several processes: --engine torch serves one trace", m->recording.path);
		gpu.nr_devices = w->device[i]->ordinal >= gpu.nr_devices ? w->device[i]->ordinal + 1 : gpu.nr_devices;
	}
	return torchengine_run(t, &gpu);
}

/* Is there anything to replay, and does the recorded version take the settings? */
static int judge(const struct whatif *w, const struct replay *m, const struct whatif_opts *o)
{
	size_t nr = 0;

	if (*w->wrong && !o->search)
		return message_error("--conf '%s': %s", o->conf, w->wrong);
	for (size_t i = 0; i < m->nr_devices; i++)
		nr += whatif_of(w, &m->device[i]) != NULL;
	if (nr)
		return CMD_FINE;
	return message_error("'%s' has no requests of a framework's allocator: there is nothing to replay", m->recording.path);
}

int cmd_whatif(int argc, const char **argv)
{
	struct whatif_opts o = { 0 };
	struct whatif_setting asked = { 0 };
	struct attempts attempts;
	struct torchengine torch = { 0 };
	struct changes changes = { 0 };
	struct series series;
	struct whatif w = { .setting = attempts.setting };
	struct replay_options load = { .observe = whatif_observe, .ctx = &w, .observe_past = true };
	struct replay m = REPLAY_INIT;
	enum opt_result parsed = opt_parse(&whatif_help, &argc, argv, &o);
	int ret, damaged = CMD_FINE;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&whatif_help, argc < 2 ? "missing RECORDING" : "unexpected argument '%s'", argv[argc - 1]);
	ret = read_setting(&o, &asked);
	if (!ret)
		ret = read_changes(&o, &changes);
	if (ret) {
		changes_release(&changes);
		return ret;
	}
	series_init(&series);
	w.series = o.points ? &series : NULL;
	w.wants_ideal = o.policy == POLICY_IDEAL;
	w.nr_settings = make_settings(&o, &asked, &attempts);
	if (o.engine == ENGINE_TORCH) {
		w.torch = &torch;
		ret = torchengine_open(&torch);
	}
	if (!ret && changes.nr) {
		ret = rules_load();
		if (!ret)
			ret = changes_make(&changes, argv[1]);
		w.edits = changes.edits;
		w.nr_edits = changes.nr_edits;
	}
	if (!ret)
		ret = replay_load(&m, argv[1], &load);
	if (!ret)
		ret = judge(&w, &m, &o);
	if (!ret && w.torch)
		ret = serve_by_torch(&torch, &w, &m, &o);
	if (!ret) {
		damaged = print_caveats(&m);
		ret = result_print(&w, &m, &o, &attempts, w.torch, &changes);
	}
	torchengine_close(&torch);
	whatif_release(&w);
	replay_release(&m);
	changes_release(&changes);
	series_release(&series);
	return damaged ? damaged : ret;
}

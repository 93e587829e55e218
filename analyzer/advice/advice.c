/* SPDX-License-Identifier: MIT */
/* Looking for advice: the window of the peak, the table of kinds, and what of them is worth saying. */
#include "analyzer/advice/advice.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NEARLY 0.99 /* of the peak: a cycle that is as good to look at */

/* Smaller batches and sequences come last, whatever they save. */
static const struct advice_row {
	const char *kind;
	bool (*find)(const struct advice_job *j, struct advice *a);
	bool keeps_result, is_last;
	bool of_training; /* it is about what is kept for a backward pass */
	bool passes;	  /* what it saves when memory runs out may be gone by itself before the step's peak */
} rows[] = {
	{ "checkpointing", advice_checkpointing, true, false, true, false },
	{ "chunked_loss", advice_chunked_loss, true, false, false, false },
	{ "small_optimizer_state", advice_small_state, false, false, false, false },
	{ "bf16_optimizer_state", advice_bf16_state, false, false, false, false },
	{ "set_to_none", advice_set_to_none, true, false, false, true },
	{ "accumulation", advice_accumulation, true, false, true, false },
	{ "free_before", advice_free_before, true, false, false, true },
	{ "duplicated_storage", advice_duplicates, true, false, false, false },
	{ "activation_offload", advice_activation_offload, true, false, true, false },
	{ "expandable_segments", advice_expandable, true, false, false, true },
	{ "optimizer_offload", advice_offload, true, false, false, false },
	{ "sharded_optimizer", advice_sharding, true, false, false, false },
	{ "sharded_parameters", advice_sharded_parameters, true, false, true, false },
	{ "smaller_batch", advice_smaller_batch, false, true, false, false },
	{ "shorter_sequence", advice_shorter, false, true, false, false },
};
#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))
static_assert(NR_ROWS <= ADVICE_MAX, "there is room for one of each kind");

/* ---- for kinds ------------------------------------------------------------------------------- */

uint64_t advice_time(uint64_t ordinal)
{
	return ordinal >= REPLAY_END / REPLAY_SCALE ? REPLAY_END : ordinal * REPLAY_SCALE;
}

struct replay advice_replay(const struct advice_job *j)
{
	struct replay r = { .from = advice_time(j->from), .to = advice_time(j->to) };

	if (j->asked)
		replay_add(&r, r.to, REPLAY_END, j->asked);
	return r;
}

void advice_keep(struct replay *r, const struct advice_job *j, size_t block)
{
	const struct life *life = &j->blocks.block[block].life;

	replay_add(r, advice_time(life->birth.ordinal), advice_time(life->death.ordinal), life->size);
}

uint64_t advice_peak(const struct advice_job *j, struct replay *r)
{
	uint64_t peak = replay_peak(r) + j->base;
	bool failed = r->failed;

	replay_release(r);
	if (failed)
		return j->peak;
	return peak > j->floor ? peak : j->floor;
}

bool advice_is_born(const struct advice_job *j, size_t block, enum phase phase)
{
	const struct life *life = &j->blocks.block[block].life;

	return life->birth.ordinal >= j->from && life->birth.ordinal <= j->to && life->birth.phase == phase;
}

bool advice_is_inference(const struct advice_job *j)
{
	bool has_run = false;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		if (life->birth.ordinal < j->from || life->birth.ordinal > j->to)
			continue;
		if (life->flags & TFMT_FLAG_FORWARD || life->birth.phase == PHASE_BACKWARD)
			return false;
		has_run |= life->birth.phase == PHASE_FORWARD;
	}
	return has_run;
}

bool advice_is_kept(const struct advice_job *j, size_t block)
{
	return j->blocks.block[block].category == CATEGORY_ACTIVATION && advice_is_born(j, block, PHASE_FORWARD);
}

int advice_by_number(const void *va, const void *vb)
{
	uint64_t a = *(const uint64_t *)va, b = *(const uint64_t *)vb;

	return (a > b) - (a < b);
}

uint64_t advice_key(const struct tfmt_shape *s)
{
	uint64_t dims[8], key = 1;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < s->nr_dims && nr < 8; i++)
		if (s->dims[i] != 1)
			dims[nr++] = s->dims[i];
	qsort(dims, nr, sizeof(*dims), advice_by_number);
	for (uint32_t i = 0; i < nr; i++)
		key = ((key ^ dims[i]) * 0x9e3779b97f4a7c15ull) ^ key >> 29;
	return nr ? key | 1 : 0;
}

uint64_t advice_elements(const struct tfmt_shape *s)
{
	uint64_t nr = 1;

	for (uint32_t i = 0; i < s->nr_dims; i++)
		nr *= s->dims[i];
	return nr;
}

bool advice_is_parameters(const struct advice_job *j, uint64_t key)
{
	return key && j->nr_parameters &&
	       bsearch(&key, j->parameter, j->nr_parameters, sizeof(*j->parameter), advice_by_number);
}

bool advice_fits_parameter(const struct advice_job *j, size_t block)
{
	return advice_is_parameters(j, j->key[block]);
}

static void find_site(const struct advice_job *j, struct advice *a, uint32_t python_stack, bool of_program)
{
	struct stack_source source = model_stack_source(j->model, j->device->process);
	struct stack stack = { 0 };
	int site = stack_expand(&stack, &source, python_stack, 0) ? -1 : stack_site(&stack);
	int program = site >= 0 && of_program ? stack_program(&stack, site) : -1;

	site = program >= 0 ? program : site;
	a->has_site = site >= 0 && stack.frame[site].file;
	if (a->has_site)
		a->site = stack.frame[site];
	stack_release(&stack);
}

void advice_at_stack(const struct advice_job *j, struct advice *a, uint32_t python_stack)
{
	find_site(j, a, python_stack, false);
}

void advice_at_program(const struct advice_job *j, struct advice *a, uint32_t python_stack)
{
	find_site(j, a, python_stack, true);
}

bool advice_is_package(const struct advice_job *j, const struct advice *a, uint32_t python_stack)
{
	struct advice program = { 0 };

	find_site(j, &program, python_stack, true);
	return a->has_site && program.has_site &&
	       (a->site.line != program.site.line || strcmp(a->site.file, program.site.file) != 0);
}

bool advice_is_cast(const struct advice_job *j, size_t block)
{
	const struct tfmt_shape *s = &j->shape[block];

	return s->nr_dims >= 2 && s->bytes < j->value_bytes * advice_elements(s) && advice_fits_parameter(j, block);
}

bool advice_runs_in(const struct advice_job *j, uint32_t python_stack, const char *const *files)
{
	struct stack_source source = model_stack_source(j->model, j->device->process);
	struct stack stack = { 0 };
	bool found = false;

	if (stack_expand(&stack, &source, python_stack, 0))
		stack.nr_frames = 0;
	for (uint32_t i = 0; i < stack.nr_frames; i++)
		for (const char *const *file = files; *file && stack.frame[i].python && stack.frame[i].file; file++)
			found |= strstr(stack.frame[i].file, *file) != NULL;
	stack_release(&stack);
	return found;
}

bool advice_ends_in(const struct advice_job *j, uint32_t python_stack, const char *file)
{
	struct stack_source source = model_stack_source(j->model, j->device->process);
	struct stack stack = { 0 };
	bool found = !stack_expand(&stack, &source, python_stack, 0) && stack.nr_frames && stack.frame[0].file &&
		     strstr(stack.frame[0].file, file);

	stack_release(&stack);
	return found;
}

const char *advice_where(char *buf, size_t size, const struct advice *a)
{
	const char *name = a->has_site ? strrchr(a->site.file, '/') : NULL;

	*buf = 0;
	if (a->has_site)
		snprintf(buf, size, " at %.40s:%" PRIu32, name ? name + 1 : a->site.file, a->site.line);
	return buf;
}

#define FILL(name, field)                                                                                    \
	void advice_##name(struct advice *a, const char *format, ...)                                        \
	{                                                                                                    \
		va_list args;                                                                                \
                                                                                                             \
		va_start(args, format);                                                                      \
		vsnprintf(a->field, sizeof(a->field), format, args);                                         \
		va_end(args);                                                                                \
	}
FILL(action, action)
FILL(evidence, evidence)
FILL(cost, cost)

/* A title that is too long loses of the middle of its file's name: the line must not be cut. */
void advice_title(struct advice *a, const char *format, ...)
{
	char text[4 * ADVICE_TITLE_MAX], *name = NULL, *end;
	size_t length, over;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	length = strlen(text);
	for (char *at = text; (at = strstr(at, " at ")); at++)
		name = at;
	end = name ? strrchr(name, '.') : NULL; /* of its extension */
	over = length < ADVICE_TITLE_MAX ? 0 : length - ADVICE_TITLE_MAX + 2; /* with room for a '~' */
	if (over && end && (size_t)(end - name) > strlen(" at ") + over) {
		end[-(ptrdiff_t)over] = '~';
		memmove(end - over + 1, end, strlen(end) + 1);
	}
	snprintf(a->title, sizeof(a->title), "%s", text);
}

/* ---- the window ------------------------------------------------------------------------------ */

/* The failure that the program did not survive; NULL: none. */
static const struct failure *failure_of(const struct failures *failures, const struct model_device *d)
{
	const struct failures_of_device *of = failures ? failures_of(failures, d) : NULL;

	return of ? failures_fatal(of) : NULL;
}

bool advices_are_needed(const struct model_device *d, const struct failures *failures)
{
	if (!d->has_tensors)
		return false;
	return failure_of(failures, d) || (d->capacity_bytes && (double)d->books->reserved_peak_bytes >
								 ADVICE_SCARCE * (double)d->capacity_bytes);
}

/* The cycle that an event lies in: where it begins, and where the next one has begun. */
static void find_cycle(struct lives_window *w, const struct steps *steps, uint64_t ordinal)
{
	const struct steps_bounds *b = &steps->cycles;

	w->from = 0;
	w->to = TFMT_NO_ORDINAL - 1;
	for (uint32_t i = 0; i < b->nr_bounds; i++) {
		if (b->ordinal[i] <= ordinal)
			w->from = b->ordinal[i];
		else if (b->ordinal[i] < w->to)
			w->to = b->ordinal[i];
	}
}

/*
 * An event of the next cycle that needs nearly as much as that of the peak, if no update had been behind that: what the
 * first one makes to stay, the optimizer's state, is there from its beginning.
 */
static uint64_t as_usual(const struct model_device *d, const struct failures *failures, uint64_t ordinal)
{
	const struct stepinputs_device *of =
	    failures ? stepinputs_of(&failures->inputs, &d->process->books, d->ordinal) : NULL;
	const struct steps *steps = &d->process->lives->steps;
	const struct steps_bounds *b = &steps->cycles;
	uint32_t peak = steps_begun(b, ordinal);

	if (steps_begun(&steps->updated, ordinal))
		return ordinal;
	for (uint32_t i = peak + 1; of && i <= b->nr_bounds && i < of->first_cycle + of->nr_cycles; i++)
		if (i >= of->first_cycle && (double)of->peak_bytes[i - of->first_cycle] >
						    NEARLY * (double)d->books->allocated_peak_bytes)
			return b->ordinal[i - 1];
	return ordinal;
}

/* What the job is about, by the first reading. false: the peak is not known block by block. */
static bool find_window(struct lives_window *w, struct advice_job *j, const struct model_device *d,
			const struct failures *failures)
{
	const struct lives *lives = d->process->lives;
	const struct failure *failure = failure_of(failures, d);
	enum lives_moment moment = categories_moment(d->process, d->ordinal, MARK_TENSOR_PEAK);
	const struct lives_device *of = lives ? lives->device[d->ordinal] : NULL;
	const struct lives_at *init;

	*w = (struct lives_window){ .device = d->ordinal };
	if (!of || (!failure && (moment == LIVES_NONE || !of->moment[moment].reached)))
		return false;
	find_cycle(w, &lives->steps, failure ? failure->ordinal :
					       as_usual(d, failures, of->moment[moment].ordinal));
	if (failure) {
		w->to = failure->ordinal;
		j->asked = replay_rounded(failure->asked);
		j->asked_ns = failure->time_ns;
		j->asked_stack = failure->python_stack;
		j->asked_phase = failure->phase;
		if (failure->shape && !tfmt_reader_shape(d->process->reader, failure->shape, &j->asked_shape))
			j->asked_shape = (struct tfmt_shape){ 0 };
		j->peak = failure->allocated + j->asked;
		j->cached = failure->reserved > failure->allocated ? failure->reserved - failure->allocated : 0;
		if (failure->free_known && failure->refused > failure->free)
			j->lacking = failure->refused - failure->free;
		if (j->lacking > j->peak)
			j->lacking = j->peak;
	} else {
		j->peak = of->moment[moment].bytes;
	}
	init = &of->moment[LIVES_PEAK_OF_PHASE + PHASE_INIT];
	if (w->from && init->reached && init->ordinal < w->from)
		j->floor = init->bytes;
	j->from = w->from;
	j->to = w->to;
	return true;
}

static void find_shapes(struct advice_job *j)
{
	const struct books *books = &j->device->process->books;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct group *g = &books->groups.group[j->blocks.block[i].life.group];

		if (!g->shape || !tfmt_reader_shape(books->reader, g->shape, &j->shape[i]))
			continue;
		j->key[i] = advice_key(&j->shape[i]);
		if (j->blocks.block[i].category != CATEGORY_PARAMETER || !j->key[i])
			continue;
		j->parameter[j->nr_parameters++] = j->key[i];
		if (j->shape[i].bytes > j->value_bytes * advice_elements(&j->shape[i]))
			j->value_bytes = j->shape[i].bytes / advice_elements(&j->shape[i]);
	}
	if (j->nr_parameters)
		qsort(j->parameter, j->nr_parameters, sizeof(*j->parameter), advice_by_number);
}

static void find_backward(struct advice_job *j)
{
	j->backward = TFMT_NO_ORDINAL;
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		if (life->birth.phase == PHASE_BACKWARD && life->birth.ordinal >= j->from &&
		    life->birth.ordinal < j->backward)
			j->backward = life->birth.ordinal;
		if (life->death.phase == PHASE_BACKWARD && life->death.ordinal >= j->from &&
		    life->death.ordinal < j->backward)
			j->backward = life->death.ordinal;
	}
	if (j->backward > j->to)
		j->backward = TFMT_NO_ORDINAL;
}

/* Bytes that are in the total and in no block: the replay of all blocks lacks them. */
static void find_base(struct advice_job *j)
{
	struct replay r = advice_replay(j);
	uint64_t known;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		advice_keep(&r, j, i);
	known = replay_peak(&r);
	j->base = j->peak > known ? j->peak - known : 0;
	replay_release(&r);
}

/* Returns 0 or TFMT_E_NOMEM. */
static int job_fill(struct advice_job *j, struct lives_window *w)
{
	struct model_process *p = j->device->process;
	int err = lives_window_close(p->lives, w);

	if (!err)
		err = categories_judge(&j->blocks, p, w->life, w->nr);
	j->shape = calloc(w->nr + 1, sizeof(*j->shape));
	j->key = calloc(w->nr + 1, sizeof(*j->key));
	j->parameter = calloc(w->nr + 1, sizeof(*j->parameter));
	if (err || !j->shape || !j->key || !j->parameter)
		return TFMT_E_NOMEM;
	find_shapes(j);
	find_backward(j);
	find_base(j);
	return 0;
}

static void job_release(struct advice_job *j)
{
	categories_release(&j->blocks);
	free(j->shape);
	free(j->key);
	free(j->parameter);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int by_use(const void *va, const void *vb)
{
	const struct advice *a = va, *b = vb;

	if (a->is_last != b->is_last)
		return a->is_last - b->is_last;
	if (a->saved_bytes != b->saved_bytes)
		return a->saved_bytes < b->saved_bytes ? 1 : -1;
	return 0;
}

static void ask_kinds(struct advices *all, const struct advice_job *j)
{
	struct advice found[NR_ROWS];
	bool is_inference = advice_is_inference(j);
	unsigned nr = 0;

	for (size_t i = 0; i < NR_ROWS; i++) {
		struct advice *a = &found[nr];

		*a = (struct advice){ .kind = rows[i].kind,
				      .keeps_result = rows[i].keeps_result,
				      .is_last = rows[i].is_last,
				      .peak_bytes = j->peak };
		if ((rows[i].of_training && is_inference) || !rows[i].find(j, a) || a->after_bytes >= a->peak_bytes)
			continue;
		a->saved_bytes = a->peak_bytes - a->after_bytes;
		a->at_least = j->asked && !a->of_forward && !rows[i].passes;
		nr += (double)a->saved_bytes >= ADVICE_LEAST * (double)a->peak_bytes;
	}
	qsort(found, nr, sizeof(*found), by_use);
	all->nr = nr;
	memcpy(all->advice, found, nr * sizeof(*found));
}

/* The same device of a model of its process alone; NULL: it is not there any more. */
static const struct model_device *same_device(const struct model *m, const struct model_device *d)
{
	for (size_t i = 0; i < m->nr_devices; i++)
		if (m->device[i].ordinal == d->ordinal)
			return &m->device[i];
	return NULL;
}

static bool can_be_read_again(const char *path)
{
	struct stat st;

	return !stat(path, &st) && !S_ISFIFO(st.st_mode);
}

int advices_find(struct advices *all, const struct model_device *d, const struct failures *failures)
{
	struct lives_window window;
	struct advice_job j = { .model = &all->model, .frag = &all->frag };
	struct model_options load = {
		.observe = frag_observe,
		.ctx = &all->frag,
		.observe_past = true,
		.quiet = true,
		.lives = true,
		.modules = true,
		.window = &window,
	};
	int err;

	*all = (struct advices)ADVICES_INIT;
	if (!can_be_read_again(d->process->path) || !find_window(&window, &j, d, failures))
		return 0;
	all->device = d;
	all->at_failure = j.asked;
	all->fits_bytes = j.lacking ? j.peak - j.lacking : 0;
	all->cached_bytes = j.cached;
	frag_init(&all->frag, &all->model);
	err = model_load(&all->model, d->process->path, &load);
	j.device = err ? NULL : same_device(&all->model, d);
	if (j.device) {
		err = frag_finish(&all->frag);
		err = err ? err : job_fill(&j, &window);
		if (!err)
			ask_kinds(all, &j);
		job_release(&j);
	}
	lives_window_release(&window);
	return err ? TFMT_E_NOMEM : 0;
}

void advices_release(struct advices *all)
{
	frag_release(&all->frag);
	model_release(&all->model);
	*all = (struct advices)ADVICES_INIT;
}

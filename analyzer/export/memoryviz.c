/* SPDX-License-Identifier: MIT */
/*
 * memory-viz: a snapshot as PyTorch takes it, for its viewer and _memory_viz.py. What each block is for, its
 * module and its name are in `category` and `user_metadata`. What a block was for shows at the end only: the
 * trace is read a second time.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/export/blockfacts.h"
#include "analyzer/export/formats.h"
#include "analyzer/export/segmenttrack.h"
#include "analyzer/export/snapshotfile.h"
#include "analyzer/recording/traceview.h"

struct memoryviz {
	const struct replay_process *process; /* the only one that a snapshot is of */
	bool is_of_several;
	uint64_t last_ordinal; /* of what was read first: a program that runs goes on writing */
	struct segmenttrack track;

	/* from here on of the second reading */
	struct snapshotfile file;
	struct blockfacts facts;
	uint32_t category[NR_CATEGORIES], *of_text; /* numbers in the pickle's memo */
	bool has_unknown; /* viewers fail where categories are given and none is "unknown" */
	uint64_t free_bytes[TFMT_NR_DEVICES]; /* as the driver said last */
};

void memoryviz_begin(struct export *x)
{
	x->state = heap_alloc(1, sizeof(struct memoryviz));
}

void memoryviz_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev,
		       uint64_t time_ns)
{
	struct export *x = ctx;
	struct memoryviz *m = x->state;

	if (!export_wants_event(x, process, ev) || ev->device >= TFMT_NR_DEVICES)
		return;
	m->process = m->process ? m->process : process;
	m->is_of_several |= m->process != process;
	if (m->is_of_several)
		return;
	m->last_ordinal = ev->before ? m->last_ordinal : ev->ordinal;
	segmenttrack_observe(&m->track, process, ev, time_ns);
}

/* ---- entries ----------------------------------------------------------------------------------- */

/* The keys that all entries have but their stack. */
static void entry_begin(struct memoryviz *m, const struct tfmt_event *ev, enum snapshot_word action)
{
	const struct tfmt_header *h = m->process->header;
	uint64_t time_ns = ev->time_ns - h->start_mono_ns + h->start_real_ns;
	bool is_oom = action == WORD_OOM;

	snapshot_entry_begin(&m->file, ev->device, action);
	snapshot_number(&m->file, is_oom ? WORD_DEVICE_FREE : WORD_ADDR,
			is_oom ? m->free_bytes[ev->device] : ev->address);
	snapshot_number(&m->file, WORD_SIZE, ev->size);
	snapshot_number(&m->file, WORD_STREAM, ev->stream);
	snapshot_number(&m->file, WORD_TIME, time_ns / 1000);
}

static void put_category(struct memoryviz *m, enum category category)
{
	snapshot_word(&m->file, WORD_CATEGORY);
	pickleout_shared_text(&m->file.pickle, &m->category[category], category_names[category]);
	m->has_unknown |= category == CATEGORY_UNKNOWN;
}

static void put_plain(struct memoryviz *m, const struct tfmt_event *ev, enum snapshot_word action)
{
	entry_begin(m, ev, action);
	snapshot_stack(&m->file, ev->python_stack, ev->native_stack);
	if (!m->has_unknown)
		put_category(m, CATEGORY_UNKNOWN);
	snapshot_entry_end(&m->file);
}

static void put_alloc(struct memoryviz *m, const struct tfmt_event *ev)
{
	struct blockfact fact = blockfacts_find(&m->facts, ev);

	entry_begin(m, ev, WORD_ALLOC);
	snapshot_stack(&m->file, ev->python_stack, ev->native_stack);
	put_category(m, fact.category);
	if (fact.text) {
		snapshot_word(&m->file, WORD_METADATA);
		pickleout_shared_text(&m->file.pickle, &m->of_text[fact.text],
				   m->facts.texts.member[fact.text - 1]->text);
	}
	snapshot_entry_end(&m->file);
}

/* Did PyTorch's allocator call the driver? */
static bool is_segment(const struct memoryviz *m, const struct tfmt_event *ev)
{
	unsigned space = ev->flags & TFMT_SPACE_MASK;

	if (ev->kind != TFMT_MAP && ev->kind != TFMT_UNMAP && space != TFMT_SPACE_DEVICE)
		return false;
	return !(ev->flags & TFMT_FLAG_MODELLED) &&
	       books_owner(m->process->books, ev->native_stack, ev->python_stack).torch_allocator;
}

static void put_event(struct memoryviz *m, const struct tfmt_event *ev)
{
	switch (ev->kind) {
	case TFMT_TENSOR_ALLOC:
		put_alloc(m, ev);
		break;
	case TFMT_TENSOR_FREE:
		put_plain(m, ev, WORD_FREE_REQUESTED);
		put_plain(m, ev, WORD_FREE_COMPLETED);
		break;
	case TFMT_TENSOR_OOM:
		put_plain(m, ev, WORD_OOM);
		break;
	case TFMT_DRIVER_ALLOC:
		if (is_segment(m, ev))
			put_plain(m, ev, WORD_SEGMENT_ALLOC);
		break;
	case TFMT_DRIVER_FREE:
		if (is_segment(m, ev))
			put_plain(m, ev, WORD_SEGMENT_FREE);
		break;
	case TFMT_MAP:
		if (is_segment(m, ev))
			put_plain(m, ev, WORD_SEGMENT_MAP);
		break;
	case TFMT_UNMAP:
		if (is_segment(m, ev))
			put_plain(m, ev, WORD_SEGMENT_UNMAP);
		break;
	case TFMT_MEMORY_INFO:
		m->free_bytes[ev->device] = ev->size;
		break;
	default:
		break;
	}
}

/* A pipe gives its trace once: opening it again would wait for another. */
static bool is_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* Read the trace again. Returns CMD_FINE, or CMD_TROUBLE after a message. */
static int put_entries(struct export *x, struct memoryviz *m)
{
	struct traceview v;
	struct tfmt_event ev;
	int ret = CMD_FINE, got;

	if (!is_file(m->process->path))
		return message_error(
			"'%s' cannot be read twice, which a snapshot needs: make it a file first",
			m->process->path);
	if (traceview_open(&v, m->process->path)) {
		ret = message_error("cannot read '%s' a second time: %s", m->process->path, v.trouble);
		traceview_close(&v);
		return ret;
	}
	tfmt_reader_plain_stacks(v.reader);
	while ((got = traceview_next(&v, &ev)) != 0) {
		if (got < 0 || ev.before)
			continue;
		if (ev.ordinal > m->last_ordinal)
			break;
		if (ev.device < TFMT_NR_DEVICES && !(ev.flags & TFMT_FLAG_TEARDOWN) &&
		    export_wants_event(x, m->process, &ev))
			put_event(m, &ev);
	}
	traceview_close(&v);
	return ret;
}

/* ---- segments ---------------------------------------------------------------------------------- */

static void put_block(struct memoryviz *m, const struct segments_block *b, const struct life *life)
{
	const struct group *g = b->group ? books_group(m->process->books, life[b->group - 1].group) : NULL;
	struct pickleout *p = &m->file.pickle;
	uint64_t requested = g && b->requested ? b->requested : b->size;

	pickleout_op(p, PICKLE_DICT);
	pickleout_op(p, PICKLE_MARK);
	snapshot_number(&m->file, WORD_ADDRESS, b->address);
	snapshot_number(&m->file, WORD_SIZE, b->size);
	snapshot_number(&m->file, WORD_REQUESTED_SIZE, g ? requested : 0);
	snapshot_word(&m->file, WORD_STATE);
	snapshot_word(&m->file, g ? WORD_ALLOCATED : WORD_INACTIVE);
	snapshot_stack(&m->file, g ? g->python_stack : 0, g ? g->native_stack : 0);
	pickleout_op(p, PICKLE_SETITEMS);
}

static void put_pool_id(struct memoryviz *m, const struct segmentlist_segment *s)
{
	snapshot_word(&m->file, WORD_POOL_ID);
	pickleout_number(&m->file.pickle, 0);
	pickleout_number(&m->file.pickle, s->private_id == SEGMENTS_SHARED || s->private_id == SEGMENTS_OTHER
					       ? 0
					       : s->private_id);
	pickleout_op(&m->file.pickle, PICKLE_TUPLE2);
}

static void put_segment(struct memoryviz *m, uint32_t device, const struct segmentlist *l,
			const struct segmentlist_segment *s, const struct life *life)
{
	struct pickleout *p = &m->file.pickle;

	pickleout_op(p, PICKLE_DICT);
	pickleout_op(p, PICKLE_MARK);
	snapshot_number(&m->file, WORD_DEVICE, device);
	snapshot_number(&m->file, WORD_ADDRESS, s->address);
	snapshot_number(&m->file, WORD_TOTAL_SIZE, s->size);
	snapshot_number(&m->file, WORD_ALLOCATED_SIZE, s->live_bytes);
	snapshot_number(&m->file, WORD_ACTIVE_SIZE, s->live_bytes);
	snapshot_number(&m->file, WORD_REQUESTED_SIZE, s->requested_bytes);
	snapshot_number(&m->file, WORD_STREAM, s->stream);
	snapshot_word(&m->file, WORD_SEGMENT_TYPE);
	snapshot_word(&m->file, s->is_small ? WORD_SMALL : WORD_LARGE);
	put_pool_id(m, s);
	snapshot_bool(&m->file, WORD_IS_EXPANDABLE, s->is_expandable);
	snapshot_stack(&m->file, 0, 0);
	snapshot_word(&m->file, WORD_BLOCKS);
	pickleout_op(p, PICKLE_LIST);
	for (size_t i = 0; i < s->nr_blocks; i++) {
		pickleout_op(p, PICKLE_MARK);
		put_block(m, &l->block[s->first_block + i], life);
		pickleout_op(p, PICKLE_APPENDS);
	}
	pickleout_op(p, PICKLE_SETITEMS);
}

static void put_device_segments(struct memoryviz *m, const struct replay_device *d)
{
	struct segmentlist l;
	struct life *life;
	size_t nr_lives;

	lives_list(d->process->lives, d->ordinal, LIVES_END, &life, &nr_lives);
	segmenttrack_list(&l, &m->track, d, life, nr_lives);
	for (size_t i = 0; i < l.nr_segments; i++) {
		pickleout_op(&m->file.pickle, PICKLE_MARK);
		put_segment(m, d->ordinal, &l, &l.segment[i], life);
		pickleout_op(&m->file.pickle, PICKLE_APPENDS);
	}
	segmentlist_release(&l);
	free(life);
}

/* ---- all --------------------------------------------------------------------------------------- */

static bool is_wanted(const struct export *x, const struct memoryviz *m, const struct replay_device *d)
{
	return d->process == m->process && export_wants_device(x, d) && d->has_tensors;
}

static void put_settings(struct memoryviz *m)
{
	const char *conf = m->process->allocator_conf;
	struct pickleout *p = &m->file.pickle;

	snapshot_word(&m->file, WORD_SETTINGS);
	pickleout_op(p, PICKLE_DICT);
	pickleout_op(p, PICKLE_MARK);
	snapshot_word(&m->file, WORD_CONF);
	pickleout_text(p, conf ? conf : "");
	snapshot_bool(&m->file, WORD_EXPANDABLE, conf && strstr(conf, "expandable_segments:True"));
	pickleout_op(p, PICKLE_SETITEMS);
	pickleout_op(p, PICKLE_SETITEM);
	snapshot_word(&m->file, WORD_ANNOTATIONS);
	pickleout_op(p, PICKLE_LIST);
	pickleout_op(p, PICKLE_SETITEM);
}

static int put_snapshot(struct export *x, struct memoryviz *m)
{
	uint32_t nr_devices = 0;
	int ret;

	for (size_t i = 0; i < x->replay->nr_devices; i++) {
		const struct replay_device *d = &x->replay->device[i];

		if (d->process == m->process && d->ordinal >= nr_devices)
			nr_devices = d->ordinal + 1;
		if (is_wanted(x, m, d))
			blockfacts_add(&m->facts, d);
	}
	m->of_text = heap_alloc(m->facts.texts.nr_members + 1, sizeof(*m->of_text));
	m->file.pickle.out = x->out;
	m->file.source = replay_stack_source(x->replay, export_process(x, m->process));
	snapshot_begin(&m->file, nr_devices);
	ret = put_entries(x, m);
	snapshot_entries_end(&m->file);
	snapshot_word(&m->file, WORD_SEGMENTS);
	pickleout_op(&m->file.pickle, PICKLE_LIST);
	for (size_t i = 0; i < x->replay->nr_devices; i++)
		if (is_wanted(x, m, &x->replay->device[i]))
			put_device_segments(m, &x->replay->device[i]);
	pickleout_op(&m->file.pickle, PICKLE_SETITEM);
	put_settings(m);
	pickleout_op(&m->file.pickle, PICKLE_STOP);
	return ret;
}

int memoryviz_finish(struct export *x)
{
	struct memoryviz *m = x->state;
	int ret;

	if (m->is_of_several)
		ret = message_error(
			"'%s' has several processes that use GPUs, and a snapshot is of one: choose it with '--rank' or '--pid'",
			x->replay->recording.path);
	else if (!m->process)
		ret = message_error("'%s' has no GPU memory to take a snapshot of",
				    x->replay->recording.path);
	else
		ret = put_snapshot(x, m);
	segmenttrack_release(&m->track);
	snapshotfile_release(&m->file);
	blockfacts_release(&m->facts);
	free(m->of_text);
	free(m);
	return ret;
}

/* SPDX-License-Identifier: MIT */
/* A pickle becomes a snapshot: entries, blocks and stacks as they come, the rest when all of it is there. */
#include "analyzer/imports/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/progress.h"
#include "analyzer/imports/pickle.h"

enum word {
	WORD_NONE,
#define WORD(name) WORD_##name,
#include "analyzer/imports/snapshotwords.def"
#undef WORD
};

static const char *const words[] = {
#define WORD(name) #name,
#include "analyzer/imports/snapshotwords.def"
#undef WORD
	NULL
};

#define STACK_TAG 0x80000000u /* in the tag of a list of frames: what follows is its stack's number */

#define PROGRESS_BYTES (1u << 20)

/* What was taken out of one list of the pickle. */
struct taken {
	enum { TAKEN_ENTRIES, TAKEN_BLOCKS, TAKEN_ANNOTATIONS } kind;
	void *item;
	size_t nr, room;
};

struct snapshotreader {
	struct snapshot *s;
	struct pickle *p;
	struct taken *taken; /* a list's tag is its place here + 1 */
	size_t nr_taken, taken_room;
	uint64_t total_bytes, next_progress;
};

/* ---- values -------------------------------------------------------------------------------------- */

static uint64_t number_of(struct pickle_value v)
{
	return v.type == PICKLE_INT || v.type == PICKLE_BOOL ? (uint64_t)v.integer : 0;
}

static uint32_t stack_of(struct pickle_value v)
{
	return v.type == PICKLE_OWN ? (uint32_t)v.integer : 0;
}

/* The number of a text; 0 = empty, or none. */
static uint32_t label_of(struct snapshotreader *r, struct pickle_value v)
{
	uint32_t *tag;
	size_t len;
	const char *text = pickle_text(r->p, v, &len);

	if (!len)
		return 0;
	tag = pickle_tag(r->p, v);
	if (!*tag)
		*tag = textset_add(&r->s->stacks.texts, 0, text, len)->number;
	return *tag;
}

/* Streams are handles of any size: numbered as they come, the default one first. */
static uint16_t stream_of(struct snapshotreader *r, struct pickle_value v)
{
	uint64_t handle = number_of(v);
	uint32_t n = keyset_add(&r->s->streams, (struct keyset_key){ { (uint32_t)handle, (uint32_t)(handle >> 32) } }, NULL);

	return n < TFMT_STREAM_OTHER ? (uint16_t)n : TFMT_STREAM_OTHER;
}

/* Pools have ids of two numbers, (0, 0) is that of all. */
static bool is_private(struct snapshotreader *r, struct pickle_value v)
{
	uint32_t nr;
	const struct pickle_value *id = pickle_items(r->p, v, &nr);

	for (uint32_t i = 0; i < nr; i++)
		if (number_of(id[i]))
			return true;
	return false;
}

/* ---- frames -------------------------------------------------------------------------------------- */

static uint32_t read_frame(struct snapshotreader *r, struct pickle_value v)
{
	uint32_t *tag = pickle_tag(r->p, v);
	const char *name, *file;
	size_t name_len, file_len;
	uint64_t line;

	if (*tag)
		return *tag - 1;
	name = pickle_text(r->p, pickle_get(r->p, v, WORD_name), &name_len);
	file = pickle_text(r->p, pickle_get(r->p, v, WORD_filename), &file_len);
	line = number_of(pickle_get(r->p, v, WORD_line));
	*tag = framestacks_frame(&r->s->stacks, name, name_len, file, file_len,
				 line < INT32_MAX ? (uint32_t)line : 0) + 1;
	return *tag - 1;
}

/* A list of frames becomes the number of its stack; nothing else of it is needed. */
static uint32_t read_stack(struct snapshotreader *r, struct pickle_value list)
{
	uint32_t *tag = pickle_tag(r->p, list), nr, stack;
	const struct pickle_value *frame = pickle_items(r->p, list, &nr);

	if (*tag)
		return *tag & STACK_TAG ? *tag & ~STACK_TAG : 0;
	for (uint32_t i = 0; i < nr; i++)
		if (frame[i].type == PICKLE_DICT)
			framestacks_push(&r->s->stacks, read_frame(r, frame[i]));
	stack = framestacks_end(&r->s->stacks);
	*tag = STACK_TAG | stack;
	pickle_clear(r->p, list);
	return stack;
}

static void set(void *ctx, struct pickle *p, struct pickle_value key, struct pickle_value *value)
{
	if (pickle_word(p, key) == WORD_frames && (value->type == PICKLE_LIST || value->type == PICKLE_TUPLE))
		*value = (struct pickle_value){ .type = PICKLE_OWN, .integer = read_stack(ctx, *value) };
}

/* ---- entries, blocks and annotations --------------------------------------------------------------- */

/* Room for one more item of what a list holds, zeroed; NULL if it holds others. */
static void *take(struct snapshotreader *r, struct pickle_value list, int kind, size_t size)
{
	uint32_t *tag = pickle_tag(r->p, list);
	struct taken *t;
	char *item;

	if (!*tag) {
		r->taken = heap_grow(r->taken, &r->taken_room, r->nr_taken + 1, sizeof(*r->taken));
		r->taken[r->nr_taken++] = (struct taken){ .kind = kind };
		*tag = (uint32_t)r->nr_taken;
	}
	if (*tag & STACK_TAG || (int)r->taken[*tag - 1].kind != kind)
		return NULL;
	t = &r->taken[*tag - 1];
	t->item = heap_grow(t->item, &t->room, t->nr + 1, size);
	item = (char *)t->item + t->nr++ * size;
	return memset(item, 0, size);
}

static int action_of(unsigned word)
{
	switch (word) {
	case WORD_alloc: return TFMT_ALLOCATOR_ALLOC;
	case WORD_free_requested: return TFMT_ALLOCATOR_FREE_REQUESTED;
	case WORD_free_completed: return TFMT_ALLOCATOR_FREE_COMPLETED;
	case WORD_segment_alloc: return TFMT_ALLOCATOR_SEGMENT_ALLOC;
	case WORD_segment_free: return TFMT_ALLOCATOR_SEGMENT_FREE;
	case WORD_segment_map: return TFMT_ALLOCATOR_SEGMENT_MAP;
	case WORD_segment_unmap: return TFMT_ALLOCATOR_SEGMENT_UNMAP;
	case WORD_snapshot: return TFMT_ALLOCATOR_SNAPSHOT;
	case WORD_oom: return TFMT_ALLOCATOR_OOM;
	default: return -1; /* of a later PyTorch: it moves no memory that we know of */
	}
}

static void fill_entry(struct snapshotreader *r, struct snapshot_entry *e, unsigned key, struct pickle_value v)
{
	switch (key) {
	case WORD_addr:
	case WORD_device_free: e->address = number_of(v); break;
	case WORD_size: e->size = number_of(v); break;
	case WORD_stream: e->stream = stream_of(r, v); break;
	case WORD_time_us: e->time_us = number_of(v); break;
	case WORD_frames: e->stack = stack_of(v); break;
	case WORD_user_metadata: e->label = label_of(r, v); break;
	case WORD_pool_id: e->is_private = is_private(r, v); break;
	default: break;
	}
}

static bool take_entry(struct snapshotreader *r, struct pickle_value list, struct pickle_value dict,
		       struct pickle_value action)
{
	int number = action_of(pickle_word(r->p, action));
	struct snapshot_entry *e = number >= 0 ? take(r, list, TAKEN_ENTRIES, sizeof(*e)) : NULL;
	const struct pickle_value *item;
	uint32_t nr;

	if (!e)
		return true;
	item = pickle_items(r->p, dict, &nr);
	e->action = (uint8_t)number;
	for (uint32_t i = 0; i + 1 < nr; i += 2)
		fill_entry(r, e, pickle_word(r->p, item[i]), item[i + 1]);
	r->s->has_times |= e->time_us != 0;
	r->s->has_stacks |= e->stack != 0;
	return true;
}

/* PyTorch 2.0 has frames and what was asked for in a list, the newest first. */
static void fill_from_history(struct snapshotreader *r, struct snapshot_block *b, struct pickle_value history)
{
	uint32_t nr;
	const struct pickle_value *first = pickle_items(r->p, history, &nr);

	if (!nr)
		return;
	b->requested = number_of(pickle_get(r->p, *first, WORD_real_size));
	b->stack = stack_of(pickle_get(r->p, *first, WORD_frames));
}

static bool take_block(struct snapshotreader *r, struct pickle_value list, struct pickle_value dict,
		       struct pickle_value state)
{
	struct snapshot_block *b = take(r, list, TAKEN_BLOCKS, sizeof(*b));
	unsigned word = pickle_word(r->p, state);

	if (!b)
		return true;
	b->state = word == WORD_active_allocated ? SNAPSHOT_ALLOCATED :
		   word == WORD_active_pending_free || word == WORD_active_awaiting_free ? SNAPSHOT_PENDING :
											  SNAPSHOT_FREE;
	b->address = number_of(pickle_get(r->p, dict, WORD_address));
	b->size = number_of(pickle_get(r->p, dict, WORD_size));
	b->requested = number_of(pickle_get(r->p, dict, WORD_requested_size));
	b->stack = stack_of(pickle_get(r->p, dict, WORD_frames));
	fill_from_history(r, b, pickle_get(r->p, dict, WORD_history));
	return true;
}

static bool take_annotation(struct snapshotreader *r, struct pickle_value list, struct pickle_value dict,
			    struct pickle_value stage)
{
	struct snapshot_annotation *a = take(r, list, TAKEN_ANNOTATIONS, sizeof(*a));

	if (!a)
		return true;
	a->time_us = number_of(pickle_get(r->p, dict, WORD_time_us));
	a->name = label_of(r, pickle_get(r->p, dict, WORD_name));
	a->device = (uint8_t)number_of(pickle_get(r->p, dict, WORD_device));
	a->is_end = pickle_word(r->p, stage) == WORD_END;
	return true;
}

static bool append(void *ctx, struct pickle *p, struct pickle_value list, struct pickle_value item)
{
	struct snapshotreader *r = ctx;
	struct pickle_value what;

	if (item.type != PICKLE_DICT || *pickle_tag(p, item)) /* most are frames that have come before */
		return false;
	if (pickle_bytes(p) >= r->next_progress) {
		progress_update(pickle_bytes(p), r->total_bytes);
		r->next_progress = pickle_bytes(p) + PROGRESS_BYTES;
	}
	what = pickle_get(p, item, WORD_action);
	if (what.type == PICKLE_TEXT)
		return take_entry(r, list, item, what);
	what = pickle_get(p, item, WORD_state);
	if (what.type == PICKLE_TEXT)
		return take_block(r, list, item, what);
	what = pickle_get(p, item, WORD_stage);
	if (what.type == PICKLE_TEXT)
		return take_annotation(r, list, item, what);
	if (pickle_get(p, item, WORD_filename).type == PICKLE_TEXT)
		read_frame(r, item);
	return false;
}

/* ---- the whole ------------------------------------------------------------------------------------- */

/* What was taken out of a list, if it was of this kind; NULL else. */
static struct taken *taken_of(struct snapshotreader *r, struct pickle_value list, int kind)
{
	uint32_t tag = list.type == PICKLE_LIST ? *pickle_tag(r->p, list) : 0;

	return tag && !(tag & STACK_TAG) && (int)r->taken[tag - 1].kind == kind ? &r->taken[tag - 1] : NULL;
}

static void read_blocks(struct snapshotreader *r, struct snapshot_segment *g, struct pickle_value list)
{
	struct taken *t = taken_of(r, list, TAKEN_BLOCKS);
	struct snapshot *s = r->s;
	uint64_t address = g->address;

	g->first_block = s->nr_blocks;
	g->nr_blocks = t ? t->nr : 0;
	if (!g->nr_blocks)
		return;
	s->block = heap_grow(s->block, &s->blocks_room, s->nr_blocks + t->nr, sizeof(*s->block));
	memcpy(s->block + s->nr_blocks, t->item, t->nr * sizeof(*s->block));
	s->nr_blocks += t->nr;
	for (size_t i = g->first_block; i < s->nr_blocks; i++) { /* which older ones do not tell */
		s->block[i].address = s->block[i].address ? s->block[i].address : address;
		address = s->block[i].address + s->block[i].size;
	}
}

static void note_device(struct snapshot *s, uint64_t device)
{
	if (device + 1 > s->nr_devices)
		s->nr_devices = (uint32_t)device + 1;
}

static int failed_device(struct snapshot *s, uint64_t device)
{
	snprintf(s->why, sizeof(s->why), "it names a device %" PRIu64 "; recordings have devices up to %d", device,
		 TFMT_NR_DEVICES - 1);
	return -1;
}

static int read_segment(struct snapshotreader *r, struct pickle_value dict)
{
	struct snapshot *s = r->s;
	uint64_t device = number_of(pickle_get(r->p, dict, WORD_device));
	struct snapshot_segment g = {
		.address = number_of(pickle_get(r->p, dict, WORD_address)),
		.size = number_of(pickle_get(r->p, dict, WORD_total_size)),
		.stack = stack_of(pickle_get(r->p, dict, WORD_frames)),
		.stream = stream_of(r, pickle_get(r->p, dict, WORD_stream)),
		.device = (uint8_t)device,
		.is_small = pickle_word(r->p, pickle_get(r->p, dict, WORD_segment_type)) == WORD_small,
		.is_expandable = number_of(pickle_get(r->p, dict, WORD_is_expandable)),
		.is_private = is_private(r, pickle_get(r->p, dict, WORD_segment_pool_id)),
	};

	if (device >= TFMT_NR_DEVICES)
		return failed_device(s, device);
	note_device(s, device);
	s->settings.expandable_segments |= g.is_expandable; /* which older ones do not tell otherwise */
	read_blocks(r, &g, pickle_get(r->p, dict, WORD_blocks));
	s->segment = heap_grow(s->segment, &s->segments_room, s->nr_segments + 1, sizeof(*s->segment));
	s->segment[s->nr_segments++] = g;
	return 0;
}

static int read_segments(struct snapshotreader *r, struct pickle_value list)
{
	uint32_t nr;
	const struct pickle_value *item = pickle_items(r->p, list, &nr);
	int err = 0;

	for (uint32_t i = 0; i < nr && !err; i++)
		if (item[i].type == PICKLE_DICT)
			err = read_segment(r, item[i]);
	return err;
}

/* The list's place is the device's number. */
static int read_traces(struct snapshotreader *r, struct pickle_value list)
{
	uint32_t nr;
	const struct pickle_value *item = pickle_items(r->p, list, &nr);

	for (uint32_t i = 0; i < nr; i++) {
		struct taken *t = taken_of(r, item[i], TAKEN_ENTRIES);

		if (!t || !t->nr)
			continue;
		if (i >= TFMT_NR_DEVICES)
			return failed_device(r->s, i);
		note_device(r->s, i);
		r->s->device[i] = (struct snapshot_device){ .entry = t->item, .nr_entries = t->nr };
		t->item = NULL; /* the snapshot's now */
		t->nr = t->room = 0;
	}
	return 0;
}

/* One list, as the memory is of no device. PyTorch before 2.14 has neither; later ones an empty one if it was not asked for. */
static void read_host(struct snapshotreader *r, struct pickle_value segments, struct pickle_value entries)
{
	struct taken *t = taken_of(r, entries, TAKEN_ENTRIES);
	struct snapshot *s = r->s;
	uint32_t nr;
	const struct pickle_value *item = pickle_items(r->p, segments, &nr);

	for (uint32_t i = 0; i < nr; i++) {
		struct snapshot_segment g = {
			.address = number_of(pickle_get(r->p, item[i], WORD_address)),
			.size = number_of(pickle_get(r->p, item[i], WORD_total_size)),
			.stack = stack_of(pickle_get(r->p, item[i], WORD_frames)),
		};

		s->host_segment = heap_grow(s->host_segment, &s->host_segments_room, s->nr_host_segments + 1,
					    sizeof(*s->host_segment));
		s->host_segment[s->nr_host_segments++] = g;
	}
	if (t) {
		s->host = (struct snapshot_device){ .entry = t->item, .nr_entries = t->nr };
		t->item = NULL;
		t->nr = t->room = 0;
	}
	s->has_host = s->nr_host_segments || s->host.nr_entries;
	if (s->has_host)
		note_device(s, 0); /* whose context the driver's calls are made in */
}

static void read_annotations(struct snapshotreader *r, struct pickle_value list)
{
	struct taken *t = taken_of(r, list, TAKEN_ANNOTATIONS);

	if (!t)
		return;
	r->s->annotation = t->item;
	r->s->nr_annotations = t->nr;
	t->item = NULL;
	t->nr = t->room = 0;
}

/* {"1": 4, "2": 4, "4": 0, ...}: the upper ends of classes of sizes, in MiB. */
static void read_divisions(struct snapshotreader *r, struct pickle_value dict)
{
	uint32_t nr;
	const struct pickle_value *item = pickle_items(r->p, dict, &nr);

	for (uint32_t i = 0; i + 1 < nr; i += 2) {
		size_t len;
		unsigned long mib = strtoul(pickle_text(r->p, item[i], &len), NULL, 10);
		unsigned at = mib ? (unsigned)__builtin_ctzl(mib) : 16;
		uint64_t divisions = number_of(item[i + 1]);

		if (at < 16 && divisions <= 1024)
			r->s->settings.roundup_divisions[at] = (uint32_t)divisions;
	}
}

static void read_settings(struct snapshotreader *r, struct pickle_value dict)
{
	struct snapshot_settings *o = &r->s->settings;
	struct pickle_value conf = pickle_get(r->p, dict, WORD_PYTORCH_CUDA_ALLOC_CONF);
	struct pickle_value split = pickle_get(r->p, dict, WORD_max_split_size);
	size_t len;

	if (conf.type == PICKLE_TEXT)
		o->conf = heap_copy(pickle_text(r->p, conf, &len));
	o->max_split_size = split.type == PICKLE_INT && split.integer > 0 ? (uint64_t)split.integer : UINT64_MAX;
	o->expandable_segments = number_of(pickle_get(r->p, dict, WORD_expandable_segments));
	read_divisions(r, pickle_get(r->p, dict, WORD_roundup_power2_divisions));
}

static int read_top(struct snapshotreader *r, struct pickle_value top)
{
	struct pickle_value segments = top.type == PICKLE_DICT ? pickle_get(r->p, top, WORD_segments) : top;
	struct pickle_value traces = pickle_get(r->p, top, WORD_device_traces);
	uint32_t nr;
	const struct pickle_value *first = pickle_items(r->p, segments, &nr);

	/* torch.cuda.memory_snapshot() is the list of segments alone. */
	if (segments.type != PICKLE_LIST ||
	    (top.type == PICKLE_LIST && nr && pickle_get(r->p, *first, WORD_segment_type).type != PICKLE_TEXT)) {
		snprintf(r->s->why, sizeof(r->s->why),
			 "it is a pickle, but no memory snapshot of PyTorch: give what "
			 "torch.cuda.memory._dump_snapshot() has written");
		return -1;
	}
	read_settings(r, pickle_get(r->p, top, WORD_allocator_settings));
	if (read_segments(r, segments) || read_traces(r, traces))
		return -1;
	read_host(r, pickle_get(r->p, top, WORD_host_segments), pickle_get(r->p, top, WORD_host_traces));
	read_annotations(r, pickle_get(r->p, top, WORD_external_annotations));
	return 0;
}

static int read_descriptor(struct snapshotreader *r, int fd)
{
	const struct pickle_hooks hooks = { .ctx = r, .words = words, .set = set, .append = append };
	struct pickle_value top;
	int err;

	r->p = pickle_open(fd, &hooks);
	err = pickle_read(r->p, &top);
	if (err)
		snprintf(r->s->why, sizeof(r->s->why), "%s", pickle_trouble(r->p));
	else
		err = read_top(r, top);
	pickle_close(r->p);
	for (size_t i = 0; i < r->nr_taken; i++)
		free(r->taken[i].item);
	free(r->taken);
	return err;
}

int snapshot_read(struct snapshot *s, const char *path)
{
	struct snapshotreader r = { .s = s };
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;
	struct stat st;
	char why[512];

	*s = (struct snapshot){ .settings.max_split_size = UINT64_MAX };
	framestacks_init(&s->stacks);
	keyset_add(&s->streams, (struct keyset_key){ { 0 } }, NULL);
	if (fd < 0 || fstat(fd, &st)) {
		snprintf(s->why, sizeof(s->why), "cannot open '%s': %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	r.total_bytes = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	progress_begin(path);
	err = read_descriptor(&r, fd);
	progress_end();
	close(fd);
	if (err) {
		memcpy(why, s->why, sizeof(why));
		why[sizeof(why) - 1] = 0;
		snprintf(s->why, sizeof(s->why), "cannot import '%s': %s", path, why);
	}
	return err;
}

void snapshot_release(struct snapshot *s)
{
	for (uint32_t i = 0; i < TFMT_NR_DEVICES; i++)
		free(s->device[i].entry);
	framestacks_release(&s->stacks);
	keyset_release(&s->streams);
	free(s->host.entry);
	free(s->host_segment);
	free(s->settings.conf);
	free(s->annotation);
	free(s->segment);
	free(s->block);
	*s = (struct snapshot){ 0 };
}

bool snapshot_is_pickle(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	uint8_t head[3];
	bool is_pickle;

	if (fd < 0)
		return false;
	is_pickle = !fstat(fd, &st) && S_ISREG(st.st_mode) && read(fd, head, sizeof(head)) == sizeof(head) &&
		    ((head[0] == 0x80 && head[1] >= 2 && head[1] <= 5) || !memcmp(head, "}q", 2) ||
		     !memcmp(head, "]q", 2) || !memcmp(head, "(dp", 3) || !memcmp(head, "(lp", 3));
	close(fd);
	return is_pickle;
}

/* SPDX-License-Identifier: MIT */
/* What a reader knows: header, summary, definitions. */
#include "tracefmt/reader.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- how it ended ---------------------------------------------------------------------------- */

static int hex_digit(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* This machine's boot id as the 16 bytes that its text spells. */
static bool own_boot_id(uint8_t id[16])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	unsigned nr = 0;
	int c, digit;

	if (!f)
		return false;
	memset(id, 0, 16);
	while (nr < 32 && (c = fgetc(f)) != EOF) {
		digit = hex_digit(c);
		if (digit < 0)
			continue;
		id[nr / 2] = (uint8_t)(id[nr / 2] << 4 | digit);
		nr++;
	}
	fclose(f);
	return nr == 32;
}

static bool recorded_here(const struct tfmt_header *h)
{
	char host[sizeof(h->host)] = "";
	uint8_t boot_id[16];

	return !gethostname(host, sizeof(host) - 1) && !strcmp(host, h->host) && own_boot_id(boot_id) &&
	       !memcmp(boot_id, h->boot_id, sizeof(boot_id));
}

static enum tfmt_process_end reader_end(const struct tfmt_reader *r)
{
	switch (r->has_status ? r->status.end : TFMT_END_OPEN) {
	case TFMT_END_EXIT:
		return TFMT_PROCESS_EXIT;
	case TFMT_END_SIGNAL:
		return TFMT_PROCESS_SIGNAL;
	case TFMT_END_EXEC:
		return TFMT_PROCESS_EXEC;
	case TFMT_END_KILLED:
		return TFMT_PROCESS_KILLED;
	default:
		break;
	}
	if (r->is_running)
		return TFMT_PROCESS_RUNNING;
	return recorded_here(&r->header) ? TFMT_PROCESS_KILLED : TFMT_PROCESS_UNKNOWN;
}

/* The recorder's own count includes the gaps that are events in the trace; the larger one is right. */
static uint64_t reader_lost(const struct tfmt_reader *r)
{
	uint64_t counted = r->has_status ? r->status.lost_events : 0;

	return r->lost_in_damage + (counted > r->lost_in_events ? counted : r->lost_in_events);
}

void tfmt_reader_conclude(struct tfmt_reader *r)
{
	struct tfmt_summary *s = &r->summary;

	s->lost_events = reader_lost(r);
	s->lost_in_damage = r->lost_in_damage;
	s->sealed = r->has_end_frame;
	if (r->has_status) {
		s->not_captured = r->status.not_captured;
		s->waits = r->status.waits;
		s->longest_wait_ns = r->status.longest_wait_ns;
		s->stop = r->status.stop;
		s->stop_errno = r->status.stop_errno;
		s->stop_time_ns = r->status.stop_time_ns;
	}
	if (r->stage != TFMT_READER_DONE)
		return;
	s->end = reader_end(r);
	s->exit_status =
		s->end == TFMT_PROCESS_EXIT || s->end == TFMT_PROCESS_SIGNAL ? r->status.exit_status : 0;
	s->complete =
		(r->has_status || r->is_running) && !s->lost_events && !s->cut && !s->nr_damaged &&
		!s->nr_given_up && !s->stop;
}

const struct tfmt_summary *tfmt_reader_summary(const struct tfmt_reader *r)
{
	return &r->summary;
}

/* ---- where it is ----------------------------------------------------------------------------- */

uint64_t tfmt_reader_offset(const struct tfmt_reader *r)
{
	return r->error_offset;
}

const char *tfmt_reader_message(const struct tfmt_reader *r)
{
	return r->message;
}

const struct tfmt_header *tfmt_reader_header(const struct tfmt_reader *r)
{
	return &r->header;
}

void tfmt_reader_progress(const struct tfmt_reader *r, uint64_t *done, uint64_t *total)
{
	*done = r->offset;
	*total = r->is_pipe ? 0 : r->file_bytes;
}

bool tfmt_reader_totals(const struct tfmt_reader *r, struct tfmt_totals *out)
{
	*out = r->ledger.totals;
	if (r->decoder.is_checkpoint) /* its header tells them all, and its events bring them about once more */
		return false;
	return !r->lost_since_header && (r->stage != TFMT_READER_DONE || r->has_status || r->is_running);
}

const struct tfmt_figures *tfmt_reader_figures(const struct tfmt_reader *r)
{
	return r->figures;
}

const struct tfmt_pass *tfmt_reader_passes(const struct tfmt_reader *r, uint32_t device, uint32_t *nr)
{
	static const struct tfmt_pass_list none;
	const struct tfmt_pass_list *l = device < TFMT_NR_DEVICES ? &r->definitions.passes[device] : &none;
	uint64_t dropped = r->figures ? r->figures->of[TFMT_FIGURES_PROCESS][TFMT_FIGURE_PASSES] : UINT64_MAX;

	*nr = l->nr;
	while (*nr && l->pass[*nr - 1].number > dropped)
		--*nr;
	return *nr ? l->pass : NULL;
}

/* ---- definitions ----------------------------------------------------------------------------- */

uint32_t tfmt_reader_nr_definitions(const struct tfmt_reader *r)
{
	return r->definitions.frames.nr + r->definitions.codes.nr + r->definitions.threads.nr;
}

bool tfmt_reader_frame(const struct tfmt_reader *r, uint32_t id, struct tfmt_frame *out)
{
	const struct tfmt_frame_entry *f = tfmt_table_get(&r->definitions.frames, id);

	*out = f ? f->frame : (struct tfmt_frame){ 0 };
	return f != NULL;
}

bool tfmt_reader_call(const struct tfmt_reader *r, uint32_t id, struct tfmt_call *out)
{
	const struct tfmt_frame_entry *f = tfmt_table_get(&r->definitions.frames, id);

	*out = f ? f->call : (struct tfmt_call){ 0 };
	return f != NULL;
}

uint32_t tfmt_reader_plain_stack(const struct tfmt_reader *r, uint32_t id)
{
	const struct tfmt_frame_entry *f;

	if (!r->definitions.plain_frames.entry)
		return id;
	f = tfmt_table_get(&r->definitions.frames, id);
	return f ? f->plain : id;
}

bool tfmt_reader_instance(const struct tfmt_reader *r, uint32_t id, struct tfmt_instance *out)
{
	const struct tfmt_instance *in = tfmt_table_get(&r->definitions.instances, id);

	*out = in ? *in : (struct tfmt_instance){ .class_name = "" };
	return in != NULL;
}

bool tfmt_reader_code(const struct tfmt_reader *r, uint32_t id, struct tfmt_code *out)
{
	const struct tfmt_code *c = tfmt_table_get(&r->definitions.codes, id);

	*out = c ? *c : (struct tfmt_code){ .name = "", .file = "" };
	return c != NULL;
}

bool tfmt_reader_shape(const struct tfmt_reader *r, uint32_t id, struct tfmt_shape *out)
{
	const struct tfmt_shape *s = tfmt_table_get(&r->definitions.shapes, id);

	*out = s ? *s : (struct tfmt_shape){ 0 };
	return s != NULL;
}

bool tfmt_reader_thread(const struct tfmt_reader *r, uint32_t id, struct tfmt_thread *out)
{
	const struct tfmt_thread *t = tfmt_table_get(&r->definitions.threads, id);

	*out = t ? *t : (struct tfmt_thread){ .name = "" };
	return t != NULL;
}

bool tfmt_reader_device(const struct tfmt_reader *r, uint32_t ordinal, struct tfmt_device *out)
{
	const struct tfmt_device *d = tfmt_table_get(&r->definitions.devices, ordinal);

	*out = d ? *d
		 : (struct tfmt_device){ .name = "", .uuid = "", .pci_bus_id = "", .physical_index = -1 };
	return d != NULL;
}

const char *tfmt_reader_string(const struct tfmt_reader *r, uint32_t id)
{
	const char *text = tfmt_table_get(&r->definitions.strings, id);

	return text ? text : "";
}

const char *tfmt_reader_function(const struct tfmt_reader *r, uint32_t id)
{
	const char *name = tfmt_table_get(&r->definitions.functions, id);

	return name ? name : "";
}

bool tfmt_reader_module(const struct tfmt_reader *r, uint32_t index, struct tfmt_module *out)
{
	if (index >= r->definitions.modules.nr) {
		*out = (struct tfmt_module){ .path = "", .build_id = "" };
		return false;
	}
	*out = *(const struct tfmt_module *)r->definitions.modules.value[index];
	return true;
}

bool tfmt_reader_source(const struct tfmt_reader *r, const char *file, struct tfmt_source *out)
{
	uint32_t i = r->definitions.sources.nr;

	*out = (struct tfmt_source){ 0 };
	while (i--) {
		const struct tfmt_source_entry *s = r->definitions.sources.value[i];

		if (!strcmp(s->file, file)) {
			*out = s->source;
			return true;
		}
	}
	return false;
}

bool tfmt_reader_info(const struct tfmt_reader *r, uint32_t index, const char **key, const char **value)
{
	const struct tfmt_info *info;

	*key = *value = "";
	if (index >= r->definitions.infos.nr)
		return false;
	info = r->definitions.infos.value[index];
	*key = info->key;
	*value = info->value;
	return true;
}

const char *tfmt_reader_info_value(const struct tfmt_reader *r, const char *key)
{
	const struct tfmt_info *info = tfmt_definitions_info(&r->definitions, key);

	return info ? info->value : NULL;
}

void tfmt_reader_hear(struct tfmt_reader *r, tfmt_definition_fn *fn, void *context)
{
	r->definitions.hear = fn;
	r->definitions.hearer = context;
}

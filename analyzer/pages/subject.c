/* SPDX-License-Identifier: MIT */
/* Footprints by their path. */
#include "analyzer/pages/subject.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/gate/baselinefile.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/purpose/rules.h"

/* A text file, then: a recording is a folder or begins as every trace does. What cannot be read is no baseline. */
static bool is_baseline(const char *path)
{
	unsigned char first = 0;
	struct stat st;
	FILE *f = NULL;

	if (!stat(path, &st) && S_ISREG(st.st_mode))
		f = fopen(path, "re");
	if (f && fread(&first, 1, 1, f) != 1)
		first = 0;
	if (f)
		fclose(f);
	return first && first < 0x80;
}

static int load_recording(struct subject *s, const char *path, bool quiet)
{
	struct oomwatch ooms = OOMWATCH_INIT;
	struct replay_options options = { .observe = oomwatch_observe, .ctx = &ooms, .quiet = quiet,
					 .lives = true, .modules = true };
	struct sourcepath names;
	int ret = rules_load();

	if (!ret)
		ret = replay_load(&s->replay, path, &options);
	if (!ret) {
		s->is_damaged = quiet ? s->replay.nr_unreadable > 0 : print_caveats(&s->replay) != CMD_FINE;
		sourcepath_find_root(&names);
		footprint_make(&s->footprint, &s->replay, &ooms, &names);
	}
	oomwatch_release(&ooms);
	return ret;
}

int subject_load(struct subject *s, const char *path, bool or_baseline, bool quiet)
{
	s->is_baseline = or_baseline && is_baseline(path);
	return s->is_baseline ? baselinefile_read(&s->footprint, path) : load_recording(s, path, quiet);
}

void subject_release(struct subject *s)
{
	footprint_release(&s->footprint);
	replay_release(&s->replay);
}

static const char *failure(char *buf, size_t size, const struct subject *s, const struct replay_process *p)
{
	char who[48] = "the program";

	if (s->replay.nr_processes > 1)
		snprintf(who, sizeof(who), "process %" PRIu32, p->header->pid);
	if (p->end == REPLAY_END_EXIT)
		snprintf(buf, size, "%s failed with exit status %d", who, p->summary->exit_status);
	else if (p->summary->exit_status > 0)
		snprintf(buf, size, "%s was ended by signal %d (%s)", who, p->summary->exit_status,
			 strsignal(p->summary->exit_status));
	else
		snprintf(buf, size, "%s was killed", who);
	return buf;
}

bool subject_has_memory(const struct subject *s)
{
	for (uint32_t i = 0; i < s->footprint.nr_devices; i++)
		if (s->footprint.device[i].figure[FIGURE_PEAK] || s->footprint.device[i].ooms)
			return true;
	return false;
}

const char *subject_obstacle(char *buf, size_t size, const struct subject *s)
{
	const struct replay *m = &s->replay;

	for (size_t i = 0; i < m->nr_processes; i++)
		if (oomwatch_has_failed(&m->process[i]))
			return failure(buf, size, s, &m->process[i]);
	for (size_t i = 0; i < m->nr_processes; i++)
		if (m->process[i].end == REPLAY_END_RUNNING)
			return snprintf(buf, size, "the program is still running"), buf;
	if (!s->is_baseline && !subject_has_memory(s))
		return snprintf(buf, size, "no GPU memory was allocated"), buf;
	return NULL;
}

const char *subject_loss(char *buf, size_t size, const struct subject *s)
{
	if (s->is_damaged)
		snprintf(buf, size, "the recording is damaged");
	else if (!s->is_baseline && s->replay.recording.nr_unrecorded)
		snprintf(buf, size, "a process could not record");
	else if (!s->is_baseline && !s->replay.complete)
		snprintf(buf, size, "events were lost");
	else
		return NULL;
	return buf;
}

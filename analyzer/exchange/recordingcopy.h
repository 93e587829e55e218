/* SPDX-License-Identifier: MIT */
/*
 * A copy of a recording in a new folder (or of a single trace in a new file), for its owner alone, that never
 * overwrites or follows anything: all generations, with their job ids and censuses. Ring files are
 * folded in.
 */
#ifndef VT_RECORDINGCOPY_H
#define VT_RECORDINGCOPY_H

#include "analyzer/recording/recording.h"
#include "tracefmt/tracefmt.h"

/* The hooks may be NULL: then all is as it was. */
struct recordingcopy {
	const char *out; /* what the copy is called */
	bool repair;     /* as tfmt_copy() has it */
	void *context;   /* of the hooks */
	/* A trace's copy begins; may change the header. */
	void (*begin)(void *context, struct tfmt_reader *reader, struct tfmt_header *header);
	const char *(*host)(void *context, const char *host); /* as it stands in the names of traces */
	const char *(*job)(void *context, const char *job);
	tfmt_define_fn *define;
	bool in_census; /* filled in: `define` is called for a census */
	/* filled in: traces that were copied; that could not be, or whose copy lacks something */
	uint64_t nr_copied, nr_not_whole;
};

/* Returns CMD_FINE, CMD_FINDING if something is not in the copy, or CMD_TROUBLE; with messages. */
int recordingcopy_make(struct recordingcopy *c, const struct recording *r);

/* The names of the traces in a folder, sorted, so that every copy numbers alike. The caller's to free, each and all. */
char **recordingcopy_names(const char *folder, size_t *nr);

#endif

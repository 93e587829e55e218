/* SPDX-License-Identifier: MIT */
/*
 * What stands for a name in an anonymous copy of a recording, and which names stay. The same text of a kind gets the
 * same replacement for as long as the struct lives: path-17/file-3.py, function-12, host-1.
 *
 * What stays says nothing of the user, and analysis goes by it (docs/man/vramtrace-anonymize.1.scd has it as a rule):
 *   paths      from site-packages/ or dist-packages/ on, below a well-known package; folders and files of
 *              alias_keep.def; files that the rules of owners or the C library name; endings (.py, .so.2)
 *   functions  of those packages, <module> and the like, and what phases of training are known by
 *   others     CUDA entry points, owners of modelled memory, dtypes, device models, PyTorch's autograd nodes and
 *              threads, settings of the allocator, figures
 *
 * Texts that are returned stay valid until alias_release(). Memory running out ends the process.
 */
#ifndef VT_ALIAS_H
#define VT_ALIAS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/recording/textset.h"
#include "tracefmt/tracefmt.h"

struct alias {
	struct textset set;
	unsigned nr_hosts; /* as alias_host_order() was told */
};

/* Hosts in the order in which their traces' files sort: the copy's then sort alike. Before any alias_host(). */
void alias_host_order(struct alias *a, const char *const *hosts, unsigned nr);

const char *alias_host(struct alias *a, const char *host);
const char *alias_job(struct alias *a, const char *job); /* its ".runNofM" stays */
const char *alias_path(struct alias *a, const char *path);
void alias_boot_id(struct alias *a, uint8_t id[16]);

/* Replace a definition's strings, in text[], where they do not stay. */
void alias_texts(struct alias *a, struct tfmt_text *text, int nr);

/* The same in a census (tracefmt/FORMAT.md, section 12), whose strings are names of the program's objects. */
void alias_census_texts(struct alias *a, struct tfmt_text *text, int nr);

/* Is this the class of an autograd node of PyTorch's own? */
bool alias_is_torch_node(const char *name);

void alias_release(struct alias *a);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A *footprint*: what a program took of each GPU, in terms that outlive one run of it. Figures, and what was held at
 * the peak by phase, library and stack; no addresses, no times, no process ids, and everything in order of name. Two
 * runs of one program have the same footprint, and those of two versions can be compared (compare.h). Made from a
 * recording, or read from a baseline (baselinefile.h).
 *
 * Single-threaded. Texts belong to the footprint; memory running out for them ends the process with a message.
 */
#ifndef VT_FOOTPRINT_H
#define VT_FOOTPRINT_H

#include "analyzer/names/namegroups.h"
#include "analyzer/failures/oomwatch.h"
#include "analyzer/recording/textset.h"
#include "analyzer/replay/replay.h"
#include "analyzer/stacks/sourcepath.h"

enum footprint_figure {
	FIGURE_PEAK,        /* held by tensors; without a framework: taken from the driver */
	FIGURE_RESERVED,    /* peak of what the framework's allocator took from the driver */
	FIGURE_DEVICE_USED, /* what nvidia-smi would show for the process at the driver's peak */
	FIGURE_OUTSIDE,     /* FIGURE_DEVICE_USED less what the framework's allocator, or the program itself, had taken */
	FIGURE_LIVE_AT_END, /* held at the end of accounting */
	NR_FIGURES,
};
extern const struct footprint_figure_name {
	const char *key;   /* for programs: "peak" */
	const char *title; /* for people: "peak" */
	/*
	 * Does it change as much as the program does? What is reserved does not: the allocator takes 20 MiB or more at a
	 * time, and one percent more of batch can cost five percent more of segments.
	 */
	bool is_steady;
} footprint_figures[NR_FIGURES];

/* By what the bytes at the peak are divided. */
enum footprint_by {
	BY_PHASE,   /* of the allocation */
	BY_LIBRARY, /* of the driver's peak, context and code of a simulated device included */
	BY_CATEGORY, /* what tensors are for (category.h) */
	BY_MODULE,   /* of the model, FOOTPRINT_DEPTH deep */
	NR_BREAKDOWNS,
};
extern const char *const footprint_breakdowns[NR_BREAKDOWNS]; /* "phase", "library", "category", "module" */
#define FOOTPRINT_DEPTH 2

struct footprint_part {
	const char *name;
	uint64_t bytes;
};

/* Blocks that were allocated by the same functions at the same line. No text is NULL; "" is none. */
struct footprint_stack {
	const char *file, *function; /* of the site; without one, function says what there is instead */
	uint32_t line;               /* 0 = unknown */
	bool from_forward;           /* the site is the call of forward whose gradient this is */
	bool in_tree;                /* file is one of the working tree; false when read from a baseline */
	const char *node;            /* the autograd node that ran */
	const char *through;         /* the innermost function of the framework that the site called */
	const char *call;            /* that took it from the driver */
	const char **caller;         /* functions of the program that called the site, innermost first */
	uint32_t nr_callers;
	const char *shape, *phase; /* of most of the bytes */
	const char *name;          /* what the program calls the blocks, as a census has it: a pattern */
	const char *name_in;       /* the function whose variable the name begins at; none: what a module holds, a global */
	struct namegroup *named;   /* who keeps them, of a recording; NULL: it is not known */
	uint64_t shape_bytes;      /* of that shape */
	uint64_t bytes, blocks;
};

/* One GPU as one process of the job sees it. */
struct footprint_device {
	int64_t rank;     /* -1 = none */
	uint32_t process; /* of those with this rank, or without one, in the order in which they began */
	uint32_t ordinal;
	const char *name;
	uint64_t capacity_bytes; /* 0 = unknown or unlimited */
	bool has_tensors;        /* of a framework; not known of a baseline */
	bool exact;              /* else figures are "at least" */
	uint64_t figure[NR_FIGURES];
	double unused_at_peak; /* 1 - allocated/reserved at the reserved peak; -1 = nothing was reserved */
	uint64_t ooms;         /* failed allocations, those that the program got over included */
	bool unhandled_oom;    /* the program failed of one */
	bool has_growth;       /* there were steps enough to tell */
	double growth;         /* bytes allocated more at the beginning of each step, of a recording; 0: it does not grow */
	bool peak_is_past;     /* before what a recording keeps: who held what then is not known */
	bool leaks;            /* what grows matters, as `leaks` has it */
	struct footprint_part *part[NR_BREAKDOWNS]; /* by name */
	uint32_t nr_parts[NR_BREAKDOWNS];
	struct footprint_stack *stack; /* by name */
	uint32_t nr_stacks;
	struct footprint_stack *growing; /* what each step leaves behind, as `leaks` has it: `bytes`; of a recording */
	uint32_t nr_growing;
};

struct footprint {
	const char *path;      /* of the recording or baseline, as it was given */
	const char *program;   /* file name; "" if unknown */
	const char *torch;     /* version; "" = none */
	const char *simulated; /* GPU profile, "" = a real device */
	const char *settings;  /* of the framework's allocator; "" = none */
	int64_t world_size;    /* ranks of the job; -1 = none */
	uint64_t min_bytes;    /* stacks that hold less are left out, if it was read from a baseline */
	struct footprint_device *device; /* by rank, process and ordinal */
	uint32_t nr_devices;
	struct textset texts;
};
#define FOOTPRINT_INIT { .world_size = -1 }

/*
 * The footprint of a recording, loaded with lives and modules, during whose loading *ooms watched. To be released with
 * footprint_release().
 */
void footprint_make(struct footprint *f, const struct replay *m, const struct oomwatch *ooms,
		   const struct sourcepath *names);
void footprint_release(struct footprint *f);

/* The text, kept as long as the footprint; NULL counts as "". */
const char *footprint_text(struct footprint *f, const char *text);

/* Stacks by file, line, function, callers; 0 when they are named alike. */
int footprint_compare_stacks(const struct footprint_stack *a, const struct footprint_stack *b);

/* Put a device's stacks into that order; those named alike become one. */
void footprint_sort_stacks(struct footprint_device *d);

/* The order of devices. */
int footprint_compare_devices(const struct footprint_device *a, const struct footprint_device *b);

/* "GPU 0", "rank 1, GPU 0", "process 2, GPU 0"; returns buf. */
const char *footprint_device_name(char *buf, size_t size, const struct footprint_device *d);

#endif

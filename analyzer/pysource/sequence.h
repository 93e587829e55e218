/* SPDX-License-Identifier: MIT */
/*
 * The members of an nn.Sequential, where the source lists them: `self.body = nn.Sequential(nn.Conv2d(3, 64,
 * 7), ...)`.
 *
 * A member that allocates nothing (`ReLU(inplace=True)`, `Flatten`, `Dropout` in evaluation) is called, and
 * not seen; by the classes of those that are seen, the list tells how many there are between them.
 */
#ifndef VT_SEQUENCE_H
#define VT_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/pysource/memberclass.h"

#define SEQUENCE_MAX 64 /* members */

struct sequence {
	uint32_t nr;
	bool is_alike; /* all are like the first, as many as there are */
	bool is_seen;  /* each allocates something when it is called: of the list it is not known how often each is in it */
	char class_name[SEQUENCE_MAX][MEMBERCLASS_MAX]; /* "Conv2d"; "" = not known */
};

/*
 * What `name` (a member of the calling method's object, or a variable) was given, in the nearest statement
 * above this line of the file; or (`several`) what each nn.Sequential is that the nn.ModuleList has, if they
 * are alike: made in a comprehension, listed or appended one by one, by themselves or by a function or class
 * of the file. false: the source cannot be read, or does not list the members one by one.
 */
bool sequence_find(struct sequence *s, struct sourcetext *sources, const char *file, uint32_t line, const char *name,
		   bool several);

/*
 * The members of the nn.ModuleList or nn.Sequential that `name` was given there, for a loop of the program's
 * own: listed one by one, or (is_alike) all of one class.
 */
bool sequence_find_list(struct sequence *s, struct sourcetext *sources, const char *file, uint32_t line,
			const char *name);

#define SEQUENCE_END (-1)
#define SEQUENCE_UNTOLD (-2)

/*
 * The first member behind number `before` (-1: from the first on) whose forward this may be: "Conv2d.forward",
 * "_BatchNorm.forward" of BatchNorm2d. SEQUENCE_END: there is none; SEQUENCE_UNTOLD: it may be one that is not known.
 */
int32_t sequence_next(const struct sequence *s, int32_t before, const char *forward);

#endif

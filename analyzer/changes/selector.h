/* SPDX-License-Identifier: MIT */
/*
 * Which blocks of a part of a job somebody means: "activation", "model.layers.*", "train.py:42", "exp_avg of *". A category's
 * name is that category; any other text is a pattern of the shell, for the path of the module that a block was made in (with
 * the variable of the model or without: model.layers.0, layers.0), for the name that the program has for it, and for
 * "file.py:12" or the function of a Python frame of its stack. With "category=", "module=", "name=" or "stack=" before it, it
 * is for that alone. A module means all within it, a name also what the optimizer keeps for it.
 */
#ifndef VT_SELECTOR_H
#define VT_SELECTOR_H

#include "analyzer/changes/jobpart.h"

enum selector_by { SELECTOR_ANY, SELECTOR_CATEGORY, SELECTOR_MODULE, SELECTOR_NAME, SELECTOR_STACK };

/* Made by selector_read(); used with the parts of one process, then to be released and read again. */
struct selector {
	enum selector_by by;
	enum category category;
	char *pattern, *within; /* as given; of what lies within */
	char *kept, *kept_within; /* of what the optimizer keeps for these: "exp_avg of model.head.weight" */

	/* private: answers so far, by path and by group; 0 = not asked */
	uint8_t *of_path, *of_group;
	uint32_t nr_paths, nr_groups;
};

/* selector_release() is needed either way. false: no category has that name; why says so. */
bool selector_read(struct selector *s, const char *text, size_t length, char *why, size_t size);
void selector_release(struct selector *s);

/* Is this block of the part meant? */
bool selector_means(struct selector *s, const struct jobpart *j, size_t block);

/* Is the module of this path meant, or one that it lies in? Of modules' paths alone. */
bool selector_means_path(struct selector *s, const struct modulepaths *paths, uint32_t path);

#endif

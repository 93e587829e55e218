/* SPDX-License-Identifier: MIT */
/*
 * Names of source files that hold on another machine: relative to the *root* of the working tree, as git and CI name
 * them; of installed packages, from the package on.
 */
#ifndef VT_SOURCEPATH_H
#define VT_SOURCEPATH_H

#include <limits.h>
#include <stdbool.h>

struct sourcepath {
	char root[PATH_MAX]; /* without a slash at its end */
};

/* The nearest folder with a `.git`, from the current one upwards; the current one if there is none. */
void sourcepath_find_root(struct sourcepath *s);

/*
 * The name of a recorded file: relative when it lies below the root, or when its last components do (it was recorded
 * in another checkout); "torch/nn/functional.py" of a package; else its last component. *in_tree says whether it is a
 * file of the tree. Points into path.
 */
const char *sourcepath_name(const struct sourcepath *s, const char *path, bool *in_tree);

#endif

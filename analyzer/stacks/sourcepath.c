/* SPDX-License-Identifier: MIT */
/* Source files by names that hold on another machine. */
#include "analyzer/stacks/sourcepath.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool exists_below(const char *root, const char *name)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return !access(path, F_OK);
}

void sourcepath_find_root(struct sourcepath *s)
{
	char here[PATH_MAX] = "";
	size_t len;

	if (!getcwd(here, sizeof(here)))
		here[0] = 0;
	snprintf(s->root, sizeof(s->root), "%s", here);
	while ((len = strlen(s->root)) && !exists_below(s->root, ".git"))
		*strrchr(s->root, '/') = 0;
	if (!len)
		snprintf(s->root, sizeof(s->root), "%s", strcmp(here, "/") ? here : "");
}

const char *sourcepath_name(const struct sourcepath *s, const char *path, bool *in_tree)
{
	static const char *const packages[] = { "/site-packages/", "/dist-packages/" };
	size_t len = strlen(s->root);
	const char *last = strrchr(path, '/');

	*in_tree = false;
	for (size_t i = 0; i < sizeof(packages) / sizeof(*packages); i++) {
		const char *found = strstr(path, packages[i]);

		if (found)
			return found + strlen(packages[i]);
	}
	*in_tree = true;
	if (!strncmp(path, s->root, len) && path[len] == '/')
		return path + len + 1;
	/* Of a file that lay in another checkout the longest part that is in this one. */
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
		if (slash[1] && exists_below(s->root, slash + 1))
			return slash + 1;
	*in_tree = *path != '/' && *path != '<';
	return *in_tree || !last ? path : last + 1;
}

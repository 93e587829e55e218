/* SPDX-License-Identifier: MIT */
/*
 * A file of rules that users write: words, a rule a line, comments after '#'. It is the one that an environment
 * variable names, else NAME in the user's folder of settings. Whoever has rules says what a line means.
 */
#ifndef VT_RULESFILE_H
#define VT_RULESFILE_H

#include <stdbool.h>

struct rulesfile {
	const char *variable, *name;
	const char *(*add)(char *line); /* takes in a line: NULL, or why it cannot be a rule */
	bool is_read;
	int status; /* of reading it */
};

/* Cut a line into at most max words, up to a comment. Returns how many there are, also of those that do not fit. */
int rulesfile_split(char *line, char **word, int max);

/*
 * At the first call, hand each line to add(); why one cannot be a rule is said, with file and line. A file that the
 * variable does not name need not be there. Returns 0 or CMD_TROUBLE, what the first call returned.
 */
int rulesfile_load(struct rulesfile *rules);

#endif

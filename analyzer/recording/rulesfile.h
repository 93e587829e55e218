/* SPDX-License-Identifier: MIT */
/*
 * A file of rules that users write: words, a rule a line, comments behind '#'. It is the one that an environment
 * variable names, else NAME in the user's folder of settings. Whoever has rules says what a line means.
 */
#ifndef VT_RULESFILE_H
#define VT_RULESFILE_H

/* Cut a line into at most max words, up to a comment. Returns how many there are, also of those that do not fit. */
int rulesfile_split(char *line, char **word, int max);

/*
 * Hand each line to add(), which returns NULL, or why it cannot be a rule: that is said, with file and line. A file
 * that the variable does not name need not be there. Returns 0 or CMD_TROUBLE.
 */
int rulesfile_load(const char *variable, const char *name, const char *(*add)(char *line));

#endif

/* SPDX-License-Identifier: MIT */
/* Which loader a program names. */
#include "analyzer/launch/clibrary.h"

#include <elf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"

#define SCRIPTS_MAX 4 /* a script's interpreter may be a script */

/* Where execvp() finds it. */
static bool find_program(const char *name, char out[static PATH_MAX])
{
	const char *path = getenv("PATH");

	if (strchr(name, '/'))
		return snprintf(out, PATH_MAX, "%s", name) < PATH_MAX;
	for (; path && *path; path += strcspn(path, ":"), path += *path == ':') {
		int len = (int)strcspn(path, ":");

		if (snprintf(out, PATH_MAX, "%.*s/%s", len ? len : 1, len ? path : ".", name) < PATH_MAX &&
		    !access(out, X_OK))
			return true;
	}
	return false;
}

/* "#!INTERPRETER ARGUMENT"; of "#!/usr/bin/env PROGRAM" the program. */
static bool find_interpreter(const char *line, char out[static PATH_MAX])
{
	char interpreter[PATH_MAX], argument[PATH_MAX] = "";
	const char *base;

	if (sscanf(line, "#! %4095s %4095[^\n ]", interpreter, argument) < 1)
		return false;
	base = strrchr(interpreter, '/');
	if (*argument && *argument != '-' && base && !strcmp(base, "/env"))
		return find_program(argument, out);
	return snprintf(out, PATH_MAX, "%s", interpreter) < PATH_MAX;
}

/* The loader of a 64-bit ELF file; "" if it names none, or is no such file. */
static void read_loader(FILE *in, char loader[static PATH_MAX])
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	*loader = 0;
	rewind(in);
	if (fread(&header, sizeof(header), 1, in) != 1 || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(segment))
		return;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		if (fseek(in, (long)(header.e_phoff + i * sizeof(segment)), SEEK_SET) ||
		    fread(&segment, sizeof(segment), 1, in) != 1)
			return;
		if (segment.p_type != PT_INTERP || segment.p_filesz >= PATH_MAX)
			continue;
		if (fseek(in, (long)segment.p_offset, SEEK_SET) ||
		    fread(loader, 1, segment.p_filesz, in) != segment.p_filesz)
			*loader = 0;
		else
			loader[segment.p_filesz] = 0;
		return;
	}
}

int clibrary_check(const char *program)
{
	char path[PATH_MAX], loader[PATH_MAX] = "", line[256];
	bool is_known = find_program(program, path);

	for (int i = 0; is_known && i < SCRIPTS_MAX; i++) {
		FILE *in = fopen(path, "re");

		if (!in)
			return 0;
		is_known = fgets(line, sizeof(line), in) && !strncmp(line, "#!", 2) && find_interpreter(line, path);
		if (!is_known)
			read_loader(in, loader);
		fclose(in);
	}
	if (!strstr(loader, "/ld-musl"))
		return 0;
	message_error("cannot record '%s': it is linked with musl ('%s'), and what is preloaded into programs needs glibc; "
		      "run a glibc build of it", program, loader);
	return RUN_TROUBLE;
}

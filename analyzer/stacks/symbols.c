/* SPDX-License-Identifier: MIT */
/* Symbols through elfutils' libdw: one session per file, opened at the first address in it. */
#include "analyzer/stacks/symbols.h"

#include "analyzer/base/heap.h"
#include "analyzer/stacks/symboltable.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A file on this machine, identified by path and build id. */
struct symbol_file {
	char *path, *build_id;
	Dwfl *session; /* NULL: missing, or not the file that was mapped */
	Dwfl_Module *module;
	Elf *elf;
	GElf_Addr bias;
	struct symboltable functions; /* made at the first address that DWARF knows nothing of */
};

struct symbol_answer {
	uint64_t address;
	uint32_t file; /* index + 1; 0 = empty slot */
	struct symbol symbol;
};

struct symbols {
	struct symbol_file *file;
	uint32_t nr_files;
	uint32_t *slot; /* hash table of files, index + 1: open addressing, a power of two of them */
	uint32_t slots_room;
	struct symbol_answer *answer; /* open addressing, a power of two of them */
	uint32_t nr_answers, room;
	char **text; /* demangled names, to be freed */
	uint32_t nr_texts;
	size_t texts_room;
	void *cxx; /* the C++ runtime, for its demangler */
	char *(*demangle)(const char *, char *, size_t *, int *);
};

static char *debuginfo_path; /* NULL: elfutils' own places below /usr/lib/debug */

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
	.debuginfo_path = &debuginfo_path,
};

struct symbols *symbols_new(void)
{
	struct symbols *s = heap_alloc(1, sizeof(*s));

	/* The demangler comes with every C++ program; a machine without one shows mangled names. */
	s->cxx = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
	if (s->cxx)
		*(void **)&s->demangle = dlsym(s->cxx, "__cxa_demangle");
	return s;
}

void symbols_free(struct symbols *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->nr_files; i++) {
		symboltable_release(&s->file[i].functions);
		if (s->file[i].session)
			dwfl_end(s->file[i].session);
		free(s->file[i].path);
		free(s->file[i].build_id);
	}
	for (uint32_t i = 0; i < s->nr_texts; i++)
		free(s->text[i]);
	if (s->cxx)
		dlclose(s->cxx);
	free(s->text);
	free(s->file);
	free(s->slot);
	free(s->answer);
	free(s);
}

static bool has_build_id(Dwfl_Module *module, const char *wanted)
{
	const unsigned char *bits;
	GElf_Addr address;
	char hex[129];
	int len;

	if (!*wanted)
		return true;
	len = dwfl_module_build_id(module, &bits, &address);
	if (len <= 0 || len > 64)
		return false;
	for (int i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", bits[i]);
	return !strcmp(hex, wanted);
}

static void file_open(struct symbol_file *f)
{
	struct stat st;

	/* The path is the recording's word: opening a pipe would wait for its writer, a device may do anything. */
	if (stat(f->path, &st) || !S_ISREG(st.st_mode))
		return;
	f->session = dwfl_begin(&callbacks);
	if (!f->session)
		return;
	dwfl_report_begin(f->session);
	f->module = dwfl_report_offline(f->session, f->path, f->path, -1);
	dwfl_report_end(f->session, NULL, NULL);
	f->elf = f->module ? dwfl_module_getelf(f->module, &f->bias) : NULL;
	if (!f->elf || !has_build_id(f->module, f->build_id)) {
		dwfl_end(f->session);
		f->session = NULL;
	}
}

static uint64_t text_hash(uint64_t hash, const char *text)
{
	while (*text)
		hash = (hash ^ (unsigned char)*text++) * 0x100000001b3ull;
	return hash;
}

/* The slot of a file, empty if it is not known. */
static uint32_t *file_slot(const struct symbols *s, const char *path, const char *build_id)
{
	uint64_t hash = text_hash(text_hash(0xcbf29ce484222325ull, build_id), path);
	uint32_t i = (uint32_t)(hash >> 32 ^ hash) & (s->slots_room - 1);

	for (; s->slot[i]; i = (i + 1) & (s->slots_room - 1)) {
		const struct symbol_file *f = &s->file[s->slot[i] - 1];

		if (!strcmp(f->path, path) && !strcmp(f->build_id, build_id))
			break;
	}
	return &s->slot[i];
}

/* Make room for one more file. */
static void files_grow(struct symbols *s)
{
	uint32_t room = s->slots_room ? 2 * s->slots_room : 256;

	if (2 * (s->nr_files + 1) <= s->slots_room)
		return;
	s->file = heap_need(realloc(s->file, room / 2 * sizeof(*s->file)));
	free(s->slot);
	s->slot = heap_alloc(room, sizeof(*s->slot));
	s->slots_room = room;
	for (uint32_t i = 0; i < s->nr_files; i++)
		*file_slot(s, s->file[i].path, s->file[i].build_id) = i + 1;
}

/* The index of the module's file, opened if it is new. */
static uint32_t file_index(struct symbols *s, const struct tfmt_module *module)
{
	struct symbol_file *file;
	uint32_t *slot;

	files_grow(s);
	slot = file_slot(s, module->path, module->build_id);
	if (*slot)
		return *slot - 1;
	file = &s->file[s->nr_files];
	*file = (struct symbol_file){ .path = heap_copy(module->path), .build_id = heap_copy(module->build_id) };
	file_open(file);
	*slot = ++s->nr_files;
	return *slot - 1;
}

/* The address inside the session of a byte of the file; 0 if no loaded segment holds it. */
static GElf_Addr session_address(const struct symbol_file *f, uint64_t file_offset)
{
	size_t nr;

	if (elf_getphdrnum(f->elf, &nr))
		return 0;
	for (size_t i = 0; i < nr; i++) {
		GElf_Phdr ph;

		if (gelf_getphdr(f->elf, (int)i, &ph) && ph.p_type == PT_LOAD && file_offset >= ph.p_offset &&
		    file_offset - ph.p_offset < ph.p_filesz)
			return ph.p_vaddr + (file_offset - ph.p_offset) + f->bias;
	}
	return 0;
}

/* Keep a string that the caller allocated; returns it. */
static const char *keep_text(struct symbols *s, char *text)
{
	s->text = heap_grow(s->text, &s->texts_room, (size_t)s->nr_texts + 1, sizeof(*s->text));
	return s->text[s->nr_texts++] = text;
}

static const char *readable_name(struct symbols *s, const char *name)
{
	int status;
	char *text;

	if (!name || strncmp(name, "_Z", 2) || !s->demangle)
		return name;
	text = s->demangle(name, NULL, NULL, &status);
	return text ? keep_text(s, text) : name;
}

/* The compilation unit of an address. clang writes no .debug_aranges: then every unit is asked. NULL without DWARF. */
static Dwarf_Die *unit_of(Dwfl_Module *module, GElf_Addr address, Dwarf_Addr *bias)
{
	Dwarf_Die *unit = dwfl_module_addrdie(module, address, bias);

	if (unit)
		return unit;
	while ((unit = dwfl_module_nextcu(module, unit, bias)))
		if (dwarf_haspc(unit, address - *bias) > 0)
			return unit;
	return NULL;
}

/* The function of the innermost scope around the address, inlined ones included; NULL if there is none. */
static const char *dwarf_function(Dwarf_Die *unit, Dwarf_Addr address)
{
	const char *name = NULL;
	Dwarf_Die *scopes;
	int nr = dwarf_getscopes(unit, address, &scopes);

	for (int i = 0; i < nr && !name; i++) {
		int tag = dwarf_tag(&scopes[i]);
		Dwarf_Attribute attribute;

		if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine)
			continue;
		if (dwarf_attr_integrate(&scopes[i], DW_AT_linkage_name, &attribute))
			name = dwarf_formstring(&attribute);
		if (!name)
			name = dwarf_diename(&scopes[i]);
	}
	if (nr > 0)
		free(scopes);
	return name;
}

static struct symbol look_up(struct symbols *s, struct symbol_file *f, uint64_t file_offset)
{
	struct symbol symbol = { 0 };
	GElf_Addr address = f->session ? session_address(f, file_offset) : 0;
	Dwarf_Line *line = NULL;
	Dwarf_Addr bias;
	Dwarf_Die *unit;
	int number = 0;

	if (!address)
		return symbol;
	unit = unit_of(f->module, address, &bias);
	if (unit) {
		symbol.function = dwarf_function(unit, address - bias);
		line = dwarf_getsrc_die(unit, address - bias);
	}
	if (!symbol.function) {
		if (!f->functions.made)
			symboltable_make(&f->functions, f->module);
		symbol.function = symboltable_find(&f->functions, address);
	}
	if (!symbol.function) {
		GElf_Off offset;
		GElf_Sym sym;

		symbol.function = dwfl_module_addrinfo(f->module, address, &offset, &sym, NULL, NULL, NULL);
	}
	symbol.function = readable_name(s, symbol.function);
	if (line) {
		symbol.file = dwarf_linesrc(line, NULL, NULL);
		dwarf_lineno(line, &number);
	}
	symbol.line = number > 0 ? (uint32_t)number : 0;
	return symbol;
}

static struct symbol_answer *answer_slot(const struct symbols *s, uint32_t file, uint64_t address)
{
	uint64_t hash = (address ^ (uint64_t)file << 40) * 0x9e3779b97f4a7c15ull;
	uint32_t i = (uint32_t)(hash >> 32) & (s->room - 1);

	while (s->answer[i].file && (s->answer[i].file != file || s->answer[i].address != address))
		i = (i + 1) & (s->room - 1);
	return &s->answer[i];
}

/* Make room for one more answer. */
static void answers_grow(struct symbols *s)
{
	uint32_t old_room = s->room;
	struct symbol_answer *old = s->answer;

	if (4 * (s->nr_answers + 1) <= 3 * s->room)
		return;
	s->room = old_room ? 2 * old_room : 1024;
	s->answer = heap_alloc(s->room, sizeof(*s->answer));
	for (uint32_t i = 0; i < old_room; i++)
		if (old[i].file)
			*answer_slot(s, old[i].file, old[i].address) = old[i];
	free(old);
}

struct symbol symbols_find(struct symbols *s, const struct tfmt_module *module, uint64_t address)
{
	struct symbol_answer *answer;
	uint64_t file_offset;
	uint32_t file;

	if (!module || !*module->path || address < module->start)
		return (struct symbol){ 0 };
	file = file_index(s, module);
	answers_grow(s);
	file_offset = address - module->start + module->offset;
	answer = answer_slot(s, file + 1, file_offset);
	if (!answer->file) {
		*answer = (struct symbol_answer){ file_offset, file + 1,
						  look_up(s, &s->file[file], file_offset) };
		s->nr_answers++;
	}
	return answer->symbol;
}

/* SPDX-License-Identifier: MIT */
/* Kernels and variables of images: ELF's symbol table, and the declarations at the outermost level of PTX. */
#include "simgpu/image_symbol.h"

#include <ctype.h>
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "simgpu/image.h"
#include "simgpu/simgpu.h"

typedef void each_fn(void *data, const struct sim_image_symbol *symbol);

/* ---- binaries -------------------------------------------------------------------------------- */

enum { KERNEL_MARK = 0x10 /* in st_other, as binaries made by nvcc 12 and 13 have it */ };

struct elf {
	const char *start;
	size_t bytes;
	const Elf64_Shdr *sections;
	unsigned nr_sections;
	const Elf64_Shdr *names; /* of sections */
};

static bool lies_inside(const struct elf *e, uint64_t offset, uint64_t bytes)
{
	return offset <= e->bytes && bytes <= e->bytes - offset;
}

static bool open_elf(struct elf *e, const char *code, size_t bytes)
{
	Elf64_Ehdr head;

	*e = (struct elf){ .start = code, .bytes = bytes };
	if (bytes < sizeof(head))
		return false;
	memcpy(&head, code, sizeof(head));
	if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(Elf64_Shdr) ||
	    head.e_shoff % _Alignof(Elf64_Shdr) || head.e_shstrndx >= head.e_shnum ||
	    !lies_inside(e, head.e_shoff, (uint64_t)head.e_shnum * sizeof(Elf64_Shdr)))
		return false;
	e->sections = (const Elf64_Shdr *)(code + head.e_shoff);
	e->nr_sections = head.e_shnum;
	e->names = &e->sections[head.e_shstrndx];
	return lies_inside(e, e->names->sh_offset, e->names->sh_size);
}

/* The text that begins at byte AT of the table of strings T; NULL if it does not end within the file. */
static const char *text_at(const struct elf *e, const Elf64_Shdr *t, uint32_t at)
{
	if (!lies_inside(e, t->sh_offset, t->sh_size) || at >= t->sh_size ||
	    !memchr(e->start + t->sh_offset + at, 0, t->sh_size - at))
		return NULL;
	return e->start + t->sh_offset + at;
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* The symbol SYM, called NAME (NULL: damaged), if it is a kernel or a variable that is defined here. */
static bool read_elf_symbol(const struct elf *e, const Elf64_Sym *sym, const char *name,
			    struct sim_image_symbol *out)
{
	const Elf64_Shdr *section;
	const char *kind;

	if (!name || sym->st_shndx == SHN_UNDEF || sym->st_shndx >= e->nr_sections)
		return false;
	section = &e->sections[sym->st_shndx];
	kind = text_at(e, e->names, section->sh_name);
	*out = (struct sim_image_symbol){ .name = name, .name_bytes = strlen(name), .bytes = sym->st_size };
	out->is_kernel = ELF64_ST_TYPE(sym->st_info) == STT_FUNC && sym->st_other & KERNEL_MARK;
	if (out->is_kernel || ELF64_ST_TYPE(sym->st_info) != STT_OBJECT || !sym->st_size)
		return out->is_kernel;
	if (!kind || (!begins(kind, ".nv.global") && !begins(kind, ".nv.constant")))
		return false;
	if (section->sh_type != SHT_NOBITS && sym->st_value <= section->sh_size &&
	    sym->st_size <= section->sh_size - sym->st_value &&
	    lies_inside(e, section->sh_offset, section->sh_size))
		out->init = e->start + section->sh_offset + sym->st_value;
	return true;
}

static bool read_elf(const char *code, size_t bytes, each_fn *each, void *data)
{
	struct sim_image_symbol symbol;
	struct elf e;

	if (!open_elf(&e, code, bytes))
		return false;
	for (unsigned i = 0; i < e.nr_sections; i++) {
		const Elf64_Shdr *table = &e.sections[i];

		if (table->sh_type != SHT_SYMTAB || table->sh_link >= e.nr_sections ||
		    table->sh_offset % _Alignof(Elf64_Sym) ||
		    !lies_inside(&e, table->sh_offset, table->sh_size))
			continue;
		for (size_t k = 0; k < table->sh_size / sizeof(Elf64_Sym); k++) {
			const Elf64_Sym *sym = (const Elf64_Sym *)(code + table->sh_offset) + k;
			const char *name = text_at(&e, &e.sections[table->sh_link], sym->st_name);

			if (read_elf_symbol(&e, sym, name, &symbol))
				each(data, &symbol);
		}
	}
	return true;
}

/* ---- PTX ------------------------------------------------------------------------------------- */

/* A place in the text, and its end. */
struct text {
	const char *at, *end;
};

/* Go past white space and comments. */
static void skip_space(struct text *t)
{
	for (;;) {
		while (t->at < t->end && isspace((unsigned char)*t->at))
			t->at++;
		if (t->end - t->at < 2 || t->at[0] != '/' || (t->at[1] != '/' && t->at[1] != '*'))
			return;
		if (t->at[1] == '/') {
			while (t->at < t->end && *t->at != '\n')
				t->at++;
			continue;
		}
		t->at += 2;
		while (t->end - t->at > 1 && (t->at[0] != '*' || t->at[1] != '/'))
			t->at++;
		t->at = t->end - t->at > 1 ? t->at + 2 : t->end;
	}
}

struct word {
	const char *text;
	size_t bytes;
};

static bool is_part(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

/* The next word or sign; empty at the end. */
static struct word next(struct text *t)
{
	struct word w;

	skip_space(t);
	w.text = t->at;
	if (t->at < t->end && *t->at == '"') {
		for (t->at++; t->at < t->end && *t->at != '"'; t->at++)
			;
		t->at += t->at < t->end;
	} else if (t->at < t->end && is_part(*t->at)) {
		while (t->at < t->end && is_part(*t->at))
			t->at++;
	} else {
		t->at += t->at < t->end;
	}
	w.bytes = (size_t)(t->at - w.text);
	return w;
}

static bool is(struct word w, const char *text)
{
	return w.bytes == strlen(text) && !memcmp(w.text, text, w.bytes);
}

/* Past what the bracket just read opens. */
static void skip_block(struct text *t, const char *open, const char *close)
{
	int depth = 1;

	while (depth && t->at < t->end) {
		struct word w = next(t);

		depth += is(w, open) ? 1 : is(w, close) ? -1 : 0;
	}
}

/* Bytes of a type such as .u32, or 0: no type of that kind. */
static size_t type_bytes(struct word w)
{
	size_t bits = 0;

	if (w.bytes < 3 || w.text[0] != '.' || !strchr("busf", w.text[1]))
		return 0;
	for (size_t i = 2; i < w.bytes && isdigit((unsigned char)w.text[i]); i++)
		bits = 10 * bits + (size_t)(w.text[i] - '0');
	return bits % 8 || bits > 128 ? 0 : bits / 8;
}

static unsigned long long number(struct word w)
{
	char text[32] = "";

	memcpy(text, w.text, w.bytes < sizeof(text) - 1 ? w.bytes : sizeof(text) - 1);
	if (text[0] == '0' && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D'))
		return strtoull(text + 2, NULL, 16);
	return strtoull(text, NULL, 0);
}

/* Values up to the semicolon into P, elements of UNIT bytes; false where one is not a number. */
static bool read_values(struct text *t, char *p, size_t bytes, size_t unit)
{
	bool is_negative = false, is_good = true;
	size_t at = 0;

	for (;;) {
		struct word w = next(t);
		unsigned long long value;

		if (!w.bytes || is(w, ";"))
			return is_good;
		if (is(w, "{") || is(w, "}") || is(w, ","))
			continue;
		if (is(w, "-")) {
			is_negative = true;
			continue;
		}
		if (!isdigit((unsigned char)w.text[0]) || unit > sizeof(value) || at + unit > bytes) {
			is_good = false;
			continue;
		}
		value = is_negative ? -number(w) : number(w);
		memcpy(p + at, &value, unit);
		at += unit;
		is_negative = false;
	}
}

/* A declaration after .global or .const, up to its end. */
static void read_variable(struct text *t, bool is_extern, each_fn *each, void *data)
{
	struct sim_image_symbol symbol = { 0 };
	size_t unit = 0, many = 1;
	char *values = NULL;
	struct word w;

	for (w = next(t); w.bytes && !is(w, ";") && !is(w, "="); w = next(t)) {
		if (is(w, ".align"))
			next(t);
		else if (is(w, "("))
			skip_block(t, "(", ")");
		else if (is(w, ".v2") || is(w, ".v4"))
			many *= (size_t)(w.text[2] - '0');
		else if (type_bytes(w))
			unit = type_bytes(w);
		else if (is(w, "[") && symbol.name)
			many *= (size_t)number(next(t));
		else if (w.text[0] != '.' && w.text[0] != '[' && w.text[0] != ']' && !symbol.name)
			symbol = (struct sim_image_symbol){ .name = w.text, .name_bytes = w.bytes };
	}
	symbol.bytes = unit * many;
	if (is(w, "=") && symbol.bytes && symbol.bytes <= SIM_MIB(64)) {
		values = sim_zalloc(symbol.bytes);
		symbol.is_init_unknown = !read_values(t, values, symbol.bytes, unit);
		symbol.init = values;
	} else if (is(w, "=")) {
		while (w.bytes && !is(w, ";"))
			w = next(t);
		symbol.is_init_unknown = true;
	}
	if (symbol.name && symbol.bytes && !is_extern)
		each(data, &symbol);
	free(values);
}

static void read_ptx(const char *code, size_t bytes, each_fn *each, void *data)
{
	struct text t = { code, code + bytes };
	bool is_extern = false;

	for (struct word w = next(&t); w.bytes; w = next(&t)) {
		if (is(w, ".global") || is(w, ".const")) {
			read_variable(&t, is_extern, each, data);
		} else if (is(w, ".entry")) {
			struct word name = next(&t);

			each(data, &(struct sim_image_symbol){
					   .name = name.text, .name_bytes = name.bytes, .is_kernel = true });
		} else if (is(w, "{")) {
			skip_block(&t, "{", "}");
		}
		is_extern = is(w, ".extern");
	}
}

static bool read_one(const void *image, int cc, each_fn *each, void *data)
{
	size_t bytes;
	const char *code = sim_image_code(image, cc, &bytes);

	if (!code)
		return false;
	if (sim_image_is_cubin(code))
		return read_elf(code, bytes, each, data);
	read_ptx(code, bytes, each, data);
	return true;
}

bool sim_image_symbols(const void *image, int cc, each_fn *each, void *data)
{
	const void *part = sim_image_next_linked(image, NULL);
	bool is_read = true;

	if (!part)
		return read_one(image, cc, each, data);
	for (; part; part = sim_image_next_linked(image, part))
		is_read &= read_one(part, cc, each, data);
	return is_read;
}

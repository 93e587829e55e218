/* SPDX-License-Identifier: MIT */
/* TOML files: toml++'s tree, copied into the structs of toml.h. */
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "analyzer/toml.h"

/* Deques, because pointers to their elements stay valid. */
struct toml_file {
	std::deque<toml_node> nodes;
	std::deque<std::string> strings;
};

static const char *keep(toml_file *file, std::string_view text)
{
	file->strings.emplace_back(text);
	return file->strings.back().c_str();
}

static toml_node *copy(toml_file *file, const toml::node &from, const char *key);

static bool is_before(const toml_node *a, const toml_node *b)
{
	return a->line != b->line ? a->line < b->line : a->column < b->column;
}

/* toml++ keeps a table in order of its keys; messages and lists want the file's. */
static void copy_members(toml_file *file, const toml::node &from, toml_node *to)
{
	std::vector<toml_node *> members;

	if (const toml::table *table = from.as_table())
		for (auto &&[key, value] : *table)
			members.push_back(copy(file, value, keep(file, key.str())));
	if (const toml::array *array = from.as_array())
		for (const toml::node &value : *array)
			members.push_back(copy(file, value, nullptr));
	std::stable_sort(members.begin(), members.end(), is_before);
	for (size_t i = members.size(); i-- > 0;) {
		members[i]->next = to->first;
		to->first = members[i];
	}
}

static toml_node *copy(toml_file *file, const toml::node &from, const char *key)
{
	toml_node *to = &file->nodes.emplace_back();

	to->key = key;
	to->line = from.source().begin.line;
	to->column = from.source().begin.column;
	to->type = TOML_TIME;
	if (from.is_table()) {
		to->type = TOML_TABLE;
	} else if (from.is_array()) {
		to->type = TOML_ARRAY;
	} else if (const auto *string = from.as_string()) {
		to->type = TOML_STRING;
		to->string = keep(file, string->get());
	} else if (const auto *integer = from.as_integer()) {
		to->type = TOML_INTEGER;
		to->integer = integer->get();
		to->number = static_cast<double>(integer->get());
	} else if (const auto *number = from.as_floating_point()) {
		to->type = TOML_FLOAT;
		to->number = number->get();
	} else if (const auto *boolean = from.as_boolean()) {
		to->type = TOML_BOOLEAN;
		to->boolean = boolean->get();
	}
	copy_members(file, from, to);
	return to;
}

const char *toml_type_name(enum toml_type type)
{
	switch (type) {
	case TOML_TABLE:
		return "a table";
	case TOML_ARRAY:
		return "an array";
	case TOML_STRING:
		return "a string";
	case TOML_INTEGER:
		return "a whole number";
	case TOML_FLOAT:
		return "a floating-point number";
	case TOML_BOOLEAN:
		return "true or false";
	case TOML_TIME:
		break;
	}
	return "a date or time";
}

/* False with errno set: PATH cannot be read. */
static bool read_all(const char *path, std::string *text)
{
	FILE *f = fopen(path, "re");
	char part[65536];
	size_t n;

	if (!f)
		return false;
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		text->append(part, n);
	bool done = !ferror(f);
	int err = errno;
	fclose(f);
	errno = err;
	return done;
}

struct toml_file *toml_open(const char *path, const struct toml_node **root, char **reason, unsigned *line)
{
	std::string text;

	*line = 0;
	if (!read_all(path, &text)) {
		*reason = strdup(strerror(errno));
		return nullptr;
	}
	toml::parse_result parsed = toml::parse(text);
	if (!parsed) {
		*line = parsed.error().source().begin.line;
		*reason = strdup(std::string(parsed.error().description()).c_str());
		return nullptr;
	}
	toml_file *file = new toml_file;
	*root = copy(file, parsed.table(), nullptr);
	return file;
}

void toml_close(struct toml_file *file)
{
	delete file;
}

/* SPDX-License-Identifier: MIT */
/* The keys of a config.json; see modelkeys.h. */
#include "analyzer/estimate/modelkeys.h"

#include <math.h>
#include <string.h>

#define KEY_MAX (1 << 28) /* no dimension of a model is larger */
#define LABELS_USUAL 2

struct json_object *modelkeys_find(const struct modelkeys *k, const char *name)
{
	struct json_object *value = NULL;

	return json_object_object_get_ex(k->object, name, &value) ? value : NULL;
}

static double find_number(const struct modelkeys *k, double min, double otherwise, const char *a, const char *b,
			  const char *c)
{
	const char *const names[] = { a, b, c };

	for (int i = 0; i < 3 && names[i]; i++) {
		struct json_object *value = modelkeys_find(k, names[i]);
		double found;

		if (!value)
			continue;
		found = json_object_get_double(value);
		if ((!json_object_is_type(value, json_type_int) &&
		     !json_object_is_type(value, json_type_double)) ||
		    !(found >= min) || found > KEY_MAX || found != floor(found)) {
			*k->wrong = names[i];
			return otherwise;
		}
		return found;
	}
	return otherwise;
}

double modelkeys_number(const struct modelkeys *k, double otherwise, const char *a, const char *b, const char *c)
{
	return find_number(k, 0, otherwise, a, b, c);
}

double modelkeys_size(const struct modelkeys *k, double otherwise, const char *a, const char *b, const char *c)
{
	return find_number(k, 1, otherwise, a, b, c);
}

bool modelkeys_flag(const struct modelkeys *k, const char *name, bool otherwise)
{
	struct json_object *value = modelkeys_find(k, name);

	if (value && !json_object_is_type(value, json_type_boolean)) {
		*k->wrong = name;
		return otherwise;
	}
	return value ? json_object_get_boolean(value) : otherwise;
}

const char *modelkeys_text(const struct modelkeys *k, const char *name)
{
	struct json_object *value = modelkeys_find(k, name);

	return value && json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
}

bool modelkeys_is_class(const struct modelkeys *k, const char *end, const char *otherwise)
{
	struct json_object *all = modelkeys_find(k, "architectures"), *first = NULL;
	const char *name;
	size_t n, m;

	if (all && json_object_is_type(all, json_type_array) && json_object_array_length(all))
		first = json_object_array_get_idx(all, 0);
	name = first && json_object_is_type(first, json_type_string) ? json_object_get_string(first) : otherwise;
	n = strlen(name);
	m = strlen(end);
	return n >= m && !strcmp(name + n - m, end);
}

double modelkeys_labels(const struct modelkeys *k)
{
	struct json_object *labels = modelkeys_find(k, "id2label");

	if (labels && json_object_is_type(labels, json_type_object))
		return json_object_object_length(labels);
	return modelkeys_number(k, LABELS_USUAL, "num_labels", NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "analyzer/names/hookname.h"

#include <string.h>

#include "analyzer/names/objectway.h"

/* Where PyTorch keeps hooks, and what puts them there. */
static const struct place {
	uint8_t owner; /* enum tfmt_object_kind */
	const char *dict, *call;
} places[] = {
	{ TFMT_KIND_MODULE, "_forward_hooks", "register_forward_hook" },
	{ TFMT_KIND_MODULE, "_forward_pre_hooks", "register_forward_pre_hook" },
	{ TFMT_KIND_MODULE, "_backward_hooks", NULL }, /* register_backward_hook, or register_full_backward_hook */
	{ TFMT_KIND_MODULE, "_backward_pre_hooks", "register_full_backward_pre_hook" },
	{ TFMT_KIND_OPTIMIZER, "_optimizer_step_pre_hooks", "register_step_pre_hook" },
	{ TFMT_KIND_OPTIMIZER, "_optimizer_step_post_hooks", "register_step_post_hook" },
	{ TFMT_KIND_PYTHON_MODULE, "_global_forward_hooks", "register_module_forward_hook" },
	{ TFMT_KIND_PYTHON_MODULE, "_global_forward_pre_hooks", "register_module_forward_pre_hook" },
	{ TFMT_KIND_PYTHON_MODULE, "_global_backward_hooks", NULL },
	{ TFMT_KIND_PYTHON_MODULE, "_global_backward_pre_hooks", "register_module_full_backward_pre_hook" },
};

bool hookname_is_dict(const char *name)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (!strcmp(places[i].dict, name))
			return true;
	return false;
}

/* Is the step such a dict, and what put hooks there, as far as that is known? */
static bool find_call(const char **call, const struct objectway *w, uint32_t step)
{
	const struct tfmt_object_facts *dict = w->step[step], *owner = w->step[step - 1];

	*call = NULL;
	if (dict->kind != TFMT_KIND_DICT || dict->edge != TFMT_EDGE_ATTRIBUTE)
		return objectway_is_hooks_of_tensor(w, step);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		if (places[i].owner != owner->kind || strcmp(places[i].dict, dict->name))
			continue;
		*call = places[i].call;
		return true;
	}
	return false;
}

bool hookname_find(struct hookname *h, const struct tfmt_census *c, uint32_t object)
{
	struct objectway w;

	objectway_find(&w, c, object);
	for (uint32_t i = w.nr; i-- > 2;) { /* the step of the hook, after its dict, after who has that */
		if (w.step[i]->edge != TFMT_EDGE_NUMBER || !find_call(&h->call, &w, i - 1))
			continue;
		objectname_find(&h->of, c, w.id[i - 2]);
		return true;
	}
	return false;
}

/* SPDX-License-Identifier: MIT */
/* Variables of the environment. */
#ifndef VT_ENVIRONMENT_H
#define VT_ENVIRONMENT_H

#include <stdlib.h>

/* The variable's value, NULL if it is unset or empty. */
static inline const char *environment_value(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

#endif

/* SPDX-License-Identifier: MIT */
/* Names of PyTorch's element types and a shape as people write it. */
#ifndef VT_ELEMENT_H
#define VT_ELEMENT_H

#include "tracefmt/tracefmt.h"

#define SHAPE_TEXT_MAX 160

/* "float32", "bfloat16", ...; "unknown" for a number it does not know. */
const char *element_name(uint32_t element_type);

/* "float32 [32, 1024]", "float32 []" for a scalar; cut with "..." if it does not fit. Returns buf. */
const char *shape_text(char buf[static SHAPE_TEXT_MAX], const struct tfmt_shape *shape);

#endif

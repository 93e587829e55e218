/* SPDX-License-Identifier: MIT */
/* c10::ScalarType in numbers and names. */
#include "analyzer/stacks/element.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
	"uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
	"complex32", "complex64", "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16",
	"quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2", "bits8", "bits16",
	"float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16", "uint32", "uint64",
	"uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7",
	"int1", "int2", "int3", "int4", "int5", "int6", "int7", "float8_e8m0fnu", "float4_e2m1fn_x2",
};

const char *element_name(uint32_t element_type)
{
	return element_type < sizeof(names) / sizeof(*names) ? names[element_type] : "unknown";
}

const char *shape_text(char buf[static SHAPE_TEXT_MAX], const struct tfmt_shape *shape)
{
	size_t used = (size_t)snprintf(buf, SHAPE_TEXT_MAX, "%s [", element_name(shape->element_type));

	for (uint32_t i = 0; i < shape->nr_dims; i++) {
		char dim[32];
		int len = snprintf(dim, sizeof(dim), "%s%" PRIu64, i ? ", " : "", shape->dims[i]);

		if (used + (size_t)len + sizeof(", ...]") > SHAPE_TEXT_MAX) {
			used += (size_t)snprintf(buf + used, SHAPE_TEXT_MAX - used, ", ...");
			break;
		}
		memcpy(buf + used, dim, (size_t)len + 1);
		used += (size_t)len;
	}
	snprintf(buf + used, SHAPE_TEXT_MAX - used, "]");
	return buf;
}

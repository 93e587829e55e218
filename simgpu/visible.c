/* SPDX-License-Identifier: MIT */
/*
 * CUDA_VISIBLE_DEVICES, as the CUDA C++ Programming Guide has it ("CUDA Environment Variables"): indices or
 * UUIDs, of which the first characters suffice; the first one that names no device ends the list. The rest is
 * what PyTorch documents of the driver (torch/cuda/__init__.py, _parse_visible_devices): an index is read as
 * far as it is a number, and a device that is named twice leaves none at all.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simgpu/internal.h"

enum { NAMES_NONE = -1 };

void sim_device_uuid_text(int index, char text[SIM_UUID_TEXT])
{
	unsigned char uuid[16];
	int at = snprintf(text, SIM_UUID_TEXT, "GPU-");

	sim_device_uuid(index, uuid);
	for (int b = 0; b < 16; b++)
		at += snprintf(text + at, SIM_UUID_TEXT - (size_t)at, "%s%02x",
			       b == 4 || b == 6 || b == 8 || b == 10 ? "-" : "", uuid[b]);
}

/* The one device whose UUID starts with the LENGTH characters of ENTRY. */
static int by_uuid(const char *entry, size_t length, int nr_physical)
{
	int found = NAMES_NONE;
	char text[SIM_UUID_TEXT];

	for (int i = 0; i < nr_physical; i++) {
		sim_device_uuid_text(i, text);
		if (length < strlen("GPU-") || strncmp(text, entry, length) != 0)
			continue;
		if (found != NAMES_NONE)
			return NAMES_NONE;
		found = i;
	}
	return found;
}

static int by_index(const char *entry)
{
	char *end;
	long n = strtol(entry, &end, 10);

	return end == entry || n < 0 || n > INT_MAX ? NAMES_NONE : (int)n;
}

static bool is_among(int index, const int *physical, int nr)
{
	while (nr-- > 0)
		if (physical[nr] == index)
			return true;
	return false;
}

int sim_visible_devices(const char *list, int nr_physical, int physical[SIM_MAX_DEVICES])
{
	bool are_uuids = !strncmp(list, "GPU-", 4);
	int nr = 0;

	for (const char *entry = list;;) {
		size_t length = strcspn(entry, ",");
		int index = are_uuids ? by_uuid(entry, length, nr_physical) : by_index(entry);

		if (index == NAMES_NONE || index >= nr_physical)
			break;
		if (is_among(index, physical, nr))
			return 0;
		physical[nr++] = index;
		if (!entry[length])
			break;
		entry += length + 1;
	}
	return nr;
}

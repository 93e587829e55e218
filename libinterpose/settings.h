/* SPDX-License-Identifier: MIT */
/*
 * The settings of PyTorch's allocator that the program gives itself, as torch.cuda.memory._set_allocator_settings() does:
 * those of the environment do not hold any more then.
 */
#ifndef IP_SETTINGS_H
#define IP_SETTINGS_H

#include <stddef.h>

/* Replace the text by the latest settings that the program gave before it was recorded, if it did. Any thread. */
void ip_settings_before(char *text, size_t size);

#endif

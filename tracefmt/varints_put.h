/* SPDX-License-Identifier: MIT */
/* Many varints at once, for a writer's columns. Internal to tracefmt. */
#ifndef TFMT_VARINTS_PUT_H
#define TFMT_VARINTS_PUT_H

#include "tracefmt/way.h"

#include <stdint.h>

/* So many bytes after the last varint may be overwritten, too. */
#define TFMT_VARINTS_PUT_AHEAD 64

/*
 * nr values as varints at p, by a way that the processor has. any: the bits that are set in any of them, or more.
 * Returns the next byte.
 */
uint8_t *tfmt_varints_put(uint8_t *p, const uint64_t *value, uint32_t nr, uint64_t any, enum tfmt_way way);

/* TFMT_WAY_WIDE, of values below 1 << 56, and below 1 << 7. */
uint8_t *tfmt_varints_put_wide(uint8_t *p, const uint64_t *value, uint32_t nr);
uint8_t *tfmt_bytes_put_wide(uint8_t *p, const uint64_t *value, uint32_t nr);

#endif

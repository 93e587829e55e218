/* SPDX-License-Identifier: MIT */
/* Names of event kinds, memory spaces and objects, as dump prints and --kind takes them. */
#ifndef VT_EVENTNAME_H
#define VT_EVENTNAME_H

#include <stdbool.h>

#include "tracefmt/tracefmt.h"

/* "tensor_alloc", ...; "unknown" for a number it does not know. */
const char *event_kind_name(unsigned kind);

/* "device", "pinned", ...; "unknown" likewise. */
const char *event_space_name(unsigned space);

/* What TFMT_OBJECT_* speak of: "context", "module", ...; "unknown" likewise. */
const char *event_object_name(unsigned object);

/* Is the event's address the id of a text: of a range, a mark, settings? Its size is that of a domain then, 0: none. */
bool event_has_text(unsigned kind);

/* What the event's aux holds, as a JSON key ("reserved_bytes", "error", ...); NULL if it holds nothing. */
const char *event_aux_name(unsigned kind);

#endif

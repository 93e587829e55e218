/* SPDX-License-Identifier: MIT */
/* Names of event kinds, memory spaces and objects, as dump prints and --kind takes them. */
#ifndef VT_EVENTNAME_H
#define VT_EVENTNAME_H

#include "tracefmt/tracefmt.h"

/* "tensor_alloc", ...; "unknown" for a number it does not know. */
const char *event_kind_name(unsigned kind);

/* "device", "pinned", ...; "unknown" likewise. */
const char *event_space_name(unsigned space);

/* What TFMT_OBJECT_* speak of: "context", "module", ...; "unknown" likewise. */
const char *event_object_name(unsigned object);

/* What the event's aux holds, as a JSON key ("reserved_bytes", "error", ...); NULL if it holds nothing. */
const char *event_aux_name(unsigned kind);

#endif

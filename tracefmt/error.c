/* SPDX-License-Identifier: MIT */
/* One sentence for each error of the format API. */
#include "tracefmt/tracefmt.h"

const char *tfmt_strerror(int err)
{
	switch (err) {
	case TFMT_OK:
		return "no error";
	case TFMT_E_IO:
		return "a system call failed";
	case TFMT_E_EMPTY:
		return "the file is empty";
	case TFMT_E_NOT_TRACE:
		return "not a vramtrace trace";
	case TFMT_E_VERSION:
		return "the trace has a format version that this program does not know: a newer vramtrace may";
	case TFMT_E_CUT:
		return "the file ends too early";
	case TFMT_E_DAMAGED:
		return "the file is damaged";
	case TFMT_E_NOMEM:
		return "out of memory";
	case TFMT_E_GIVEN_UP:
		return "events are missing where the recording was damaged before it was repaired";
	case TFMT_E_FEATURE:
		return "the trace has what a reader must understand and this program does not: a newer vramtrace does";
	case TFMT_E_INVALID:
		return "an argument cannot be right";
	default:
		return "unknown error";
	}
}

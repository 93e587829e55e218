/* SPDX-License-Identifier: MIT */
/* What a source file is known by. Reads in pieces: a recorder has no memory of its program's to read it into. */
#include "tracefmt/tracefmt.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define PIECE_BYTES 16384

static bool read_source(int fd, struct tfmt_source *out)
{
	uint8_t piece[PIECE_BYTES];
	XXH64_state_t state;
	struct stat st;
	ssize_t got;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > TFMT_SOURCE_MAX)
		return false;
	*out = (struct tfmt_source){ 0 };
	XXH64_reset(&state, 0);
	while ((got = read(fd, piece, sizeof(piece))) > 0 && out->bytes <= TFMT_SOURCE_MAX) {
		XXH64_update(&state, piece, (size_t)got);
		out->bytes += (uint64_t)got;
	}
	out->hash = XXH64_digest(&state);
	return !got;
}

bool tfmt_source_read(const char *path, struct tfmt_source *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool has_read = fd >= 0 && read_source(fd, out);

	if (fd >= 0)
		close(fd);
	return has_read;
}

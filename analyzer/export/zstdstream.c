/* SPDX-License-Identifier: MIT */
/* A stream of the C library whose bytes go through libzstd to another one. */
#include "analyzer/export/zstdstream.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <zstd.h>

#include "analyzer/base/heap.h"

#define LEVEL 3
#define BUFFER_BYTES (1u << 20)

struct zstdstream {
	FILE *to;
	ZSTD_CCtx *context;
	char *buf; /* ZSTD_CStreamOutSize() bytes */
};

/* Compress all of the input; with ZSTD_e_end, to the end of the frame. Returns 0, or -1 with errno set. */
static int compress(struct zstdstream *z, ZSTD_inBuffer *in, ZSTD_EndDirective how)
{
	size_t left;

	do {
		ZSTD_outBuffer out = { z->buf, ZSTD_CStreamOutSize(), 0 };

		left = ZSTD_compressStream2(z->context, &out, in, how);
		if (ZSTD_isError(left)) {
			errno = EIO;
			return -1;
		}
		if (fwrite(z->buf, 1, out.pos, z->to) != out.pos)
			return -1;
	} while (how == ZSTD_e_end ? left > 0 : in->pos < in->size);
	return 0;
}

static ssize_t stream_write(void *cookie, const char *data, size_t size)
{
	ZSTD_inBuffer in = { data, size, 0 };

	return compress(cookie, &in, ZSTD_e_continue) ? 0 : (ssize_t)size;
}

static int stream_close(void *cookie)
{
	struct zstdstream *z = cookie;
	ZSTD_inBuffer none = { NULL, 0, 0 };
	int ret = compress(z, &none, ZSTD_e_end);

	ZSTD_freeCCtx(z->context);
	free(z->buf);
	free(z);
	return ret;
}

FILE *zstdstream_open(FILE *to)
{
	static const cookie_io_functions_t functions = { .write = stream_write, .close = stream_close };
	struct zstdstream *z = heap_alloc(1, sizeof(*z));
	FILE *stream;

	*z = (struct zstdstream){ to, heap_need(ZSTD_createCCtx()), heap_alloc(ZSTD_CStreamOutSize(), 1) };
	ZSTD_CCtx_setParameter(z->context, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(z->context, ZSTD_c_checksumFlag, 1);
	stream = heap_need(fopencookie(z, "w", functions));
	setvbuf(stream, NULL, _IOFBF, BUFFER_BYTES);
	return stream;
}

int zstdstream_close(FILE *stream)
{
	int failed = ferror(stream);

	return fclose(stream) || failed ? -1 : 0;
}

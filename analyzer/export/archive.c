/* SPDX-License-Identifier: MIT */
/* Files of processes in a tar archive, as POSIX.1-1988 has it. */
#include "analyzer/export/archive.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"

#define TAR_BLOCK 512

struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6],
		version[2], user[32], group[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a header is a block");

/* A number in octal digits, as many as there is room for. */
static void put_octal(char *field, size_t size, uint64_t value)
{
	for (size_t i = size - 1; i-- > 0; value >>= 3)
		field[i] = (char)('0' + (value & 7));
}

static void header_write(FILE *out, const char *name, uint64_t size, uint64_t time_s)
{
	struct tar_header h = { .type = '0', .magic = "ustar", .version = { '0', '0' } };
	const unsigned char *byte = (const unsigned char *)&h;
	unsigned sum = 0;

	snprintf(h.name, sizeof(h.name), "%s", name);
	put_octal(h.mode, sizeof(h.mode), 0644);
	put_octal(h.uid, sizeof(h.uid), 0);
	put_octal(h.gid, sizeof(h.gid), 0);
	put_octal(h.size, sizeof(h.size), size);
	put_octal(h.mtime, sizeof(h.mtime), time_s);
	memset(h.checksum, ' ', sizeof(h.checksum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += byte[i];
	put_octal(h.checksum, sizeof(h.checksum), sum);
	fwrite(&h, 1, sizeof(h), out);
}

/* Bytes of a file, to the end of the block. */
static void copy(FILE *out, FILE *from, uint64_t size)
{
	static const char zeros[TAR_BLOCK];
	char buffer[1 << 14];
	size_t nr;

	while ((nr = fread(buffer, 1, sizeof(buffer), from)) > 0)
		fwrite(buffer, 1, nr, out);
	fwrite(zeros, 1, (size_t)(-size % TAR_BLOCK), out);
}

/* Names sort by rank. */
static const char *member_name(char *buf, size_t size, const struct replay_process *p, const char *ending)
{
	char rank[32] = "";

	if (p->rank >= 0)
		snprintf(rank, sizeof(rank), "rank-%04" PRId64 ".", p->rank);
	snprintf(buf, size, "%s%.40s.%" PRIu64 ".%s", rank, p->header->host, (uint64_t)p->header->pid,
		 ending);
	return buf;
}

static int member_write(struct export *x, const struct export_format *format, const struct replay_process *p)
{
	struct export one = *x;
	char name[100];
	uint64_t size;
	int ret;

	one.only = p;
	one.out = tmpfile();
	if (!one.out)
		return message_error("cannot make a temporary file: %s", strerror(errno));
	ret = format->write(&one);
	fseeko(one.out, 0, SEEK_END);
	size = (uint64_t)ftello(one.out);
	rewind(one.out);
	if (!ret && ferror(one.out))
		ret = message_error("cannot write a temporary file: %s", strerror(errno));
	if (!ret) {
		header_write(x->out, member_name(name, sizeof(name), p, format->ending), size,
			     p->header->start_real_ns / 1000000000u);
		copy(x->out, one.out, size);
	}
	fclose(one.out);
	return ret;
}

static bool has_devices(const struct export *x, const struct replay_process *p)
{
	for (size_t i = 0; i < x->replay->nr_devices; i++)
		if (x->replay->device[i].process == p && export_wants_device(x, &x->replay->device[i]))
			return true;
	return false;
}

int archive_write(struct export *x, const struct export_format *format)
{
	static const char end[2 * TAR_BLOCK];
	int ret = CMD_FINE;

	for (size_t i = 0; i < x->replay->nr_processes && !ret; i++)
		if (has_devices(x, &x->replay->process[i]))
			ret = member_write(x, format, &x->replay->process[i]);
	fwrite(end, 1, sizeof(end), x->out);
	return ret;
}

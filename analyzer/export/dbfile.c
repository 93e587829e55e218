/* SPDX-License-Identifier: MIT */
/* Filling a SQLite database. */
#include "analyzer/export/dbfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/export/utf8text.h"

static void note(struct dbfile *f, int result)
{
	if (result == SQLITE_NOMEM)
		heap_need(NULL);
	if (f->error || result == SQLITE_OK || result == SQLITE_DONE)
		return;
	f->error = result;
	snprintf(f->message, sizeof(f->message), "%s", sqlite3_errmsg(f->db));
}

void dbfile_run(struct dbfile *f, const char *sql)
{
	if (!f->error)
		note(f, sqlite3_exec(f->db, sql, NULL, NULL, NULL));
}

void dbfile_open(struct dbfile *f, const char *path, const char *schema)
{
	*f = (struct dbfile){ 0 };
	note(f, sqlite3_open_v2(path, &f->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL));
	/* Until it is whole the file is nobody's: what a crash leaves is removed, not repaired. */
	dbfile_run(f, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA page_size=8192; PRAGMA locking_mode=EXCLUSIVE;"
		      "PRAGMA cache_size=-16384;");
	dbfile_run(f, "BEGIN");
	dbfile_run(f, schema);
}

int dbfile_close(struct dbfile *f)
{
	int ret = CMD_FINE;

	dbfile_run(f, "COMMIT");
	if (f->error)
		ret = message_error("cannot write the database: %s", f->message);
	sqlite3_close(f->db);
	f->db = NULL;
	return ret;
}

void dbtable_open(struct dbtable *t, struct dbfile *f, const char *name, int nr_columns)
{
	char sql[256];
	int nr = snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (?", name);

	for (int i = 1; i < nr_columns; i++)
		nr += snprintf(sql + nr, sizeof(sql) - (size_t)nr, ",?");
	snprintf(sql + nr, sizeof(sql) - (size_t)nr, ")");
	*t = (struct dbtable){ .file = f };
	if (!f->error)
		note(f, sqlite3_prepare_v2(f->db, sql, -1, &t->insert, NULL));
}

void dbtable_close(struct dbtable *t)
{
	sqlite3_finalize(t->insert);
	t->insert = NULL;
}

void dbtable_int(struct dbtable *t, int64_t value)
{
	if (!t->file->error)
		note(t->file, sqlite3_bind_int64(t->insert, ++t->nr_values, value));
}

void dbtable_none(struct dbtable *t)
{
	if (!t->file->error)
		note(t->file, sqlite3_bind_null(t->insert, ++t->nr_values));
}

static bool is_ascii(const char *text)
{
	while (*text && (unsigned char)*text < 0x80)
		text++;
	return !*text;
}

void dbtable_text(struct dbtable *t, const char *text)
{
	char *clean;

	if (!text) {
		dbtable_none(t);
		return;
	}
	if (t->file->error)
		return;
	t->nr_values++;
	if (is_ascii(text)) {
		note(t->file, sqlite3_bind_text(t->insert, t->nr_values, text, -1, SQLITE_TRANSIENT));
		return;
	}
	clean = heap_copy(text);
	utf8text_clean(clean, strlen(clean));
	note(t->file, sqlite3_bind_text(t->insert, t->nr_values, clean, -1, free));
}

void dbtable_end(struct dbtable *t)
{
	t->nr_values = 0;
	if (t->file->error)
		return;
	note(t->file, sqlite3_step(t->insert));
	note(t->file, sqlite3_reset(t->insert));
}

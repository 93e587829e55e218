/* SPDX-License-Identifier: MIT */
/*
 * A SQLite database that is filled once, row by row. After the first error nothing more is written, and dbfile_close() says
 * it: nobody has to look at each row.
 */
#ifndef VT_DBFILE_H
#define VT_DBFILE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct dbfile {
	sqlite3 *db;
	int error; /* the first, SQLITE_OK = none */
	char message[256];
};

/* Rows of one table: a value for each column, in their order, then dbtable_end(). */
struct dbtable {
	struct dbfile *file;
	sqlite3_stmt *insert;
	int nr_values;
};

/* Open an empty file, and make the tables of `schema`. */
void dbfile_open(struct dbfile *f, const char *path, const char *schema);

/* Run a statement without a result. */
void dbfile_run(struct dbfile *f, const char *sql);

/* Close it. Returns CMD_FINE, or CMD_TROUBLE after a message. */
int dbfile_close(struct dbfile *f);

void dbtable_open(struct dbtable *t, struct dbfile *f, const char *name, int nr_columns);
void dbtable_close(struct dbtable *t);

/* Integers are signed in SQLite: an address of 2^63 or more is below 0. */
void dbtable_int(struct dbtable *t, int64_t value);
void dbtable_text(struct dbtable *t, const char *text); /* NULL: as dbtable_none() */
void dbtable_none(struct dbtable *t);
void dbtable_end(struct dbtable *t);

#endif

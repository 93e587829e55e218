/* SPDX-License-Identifier: MIT */
/*
 * What fuzzers of the analyzer share: inputs as files, and results that are looked at instead of printed.
 * Single-threaded.
 */
#ifndef VT_HOSTILE_FILE_H
#define VT_HOSTILE_FILE_H

#include <stddef.h>
#include <stdint.h>

/* The path of a file in memory that holds the input; valid until the next call. */
const char *hostile_file(const uint8_t *data, size_t size);

/* A command of the analyzer (command.h). */
typedef int hostile_command(int argc, const char **argv);

/*
 * Run a command. Its status must be one that commands have, and what it prints, when is_json, one JSON
 * document with a schema whose text is UTF-8: else the program aborts. Messages go nowhere.
 */
void hostile_run(hostile_command *command, int argc, const char **argv, int is_json);

/* The trace that was written to a descriptor can be read, has so many events, and says that it is whole: else the program aborts. */
void hostile_check_trace(int fd, uint64_t nr_events);

/* Messages go nowhere from now on; sanitizers and the fuzzer keep their stderr. */
void hostile_quiet(void);

#endif

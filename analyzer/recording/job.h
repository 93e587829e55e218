/* SPDX-License-Identifier: MIT */
/*
 * What `run` knows of the job it is part of: its id, this process's rank, the program's short name, and
 * whether a person is watching. The preloaded library derives id and name by the same rules when there is no
 * `run`.
 */
#ifndef VT_JOB_H
#define VT_JOB_H

#include <stdbool.h>
#include <stddef.h>

#define JOB_ID_MAX 256

/*
 * The job's id: VRAMTRACE_JOB of an outer run, else the launcher's (SLURM, torch elastic, PBS, LSF; a restart
 * of an elastic job has ".rN" appended), else start time and pid.
 */
void job_id(char out[static JOB_ID_MAX]);

/*
 * The id of run RUN of OF of a job that is repeated: ".runRofO" is appended to it. job_run() takes that apart: true
 * with the length of the job's own id, the run and how many were wanted, if the id has such an end.
 */
void job_id_of_run(char out[static JOB_ID_MAX], const char *job, unsigned run, unsigned of);
bool job_run(const char *id, size_t *len, unsigned *run, unsigned *of);

/* Did somebody else give the id, so that other `run`s may share it? */
bool job_is_shared(void);

/* RANK, SLURM_PROCID or OMPI_COMM_WORLD_RANK; "0" without a launcher. Points into the environment. */
const char *job_rank(void);

/* This host's name as it stands in the names of traces; at most size - 1 bytes of it. */
void job_host(char *out, size_t size);

/*
 * The program's short name: base name of the script (without .py) or module when the program is a Python
 * interpreter, else base name of the program. argv is NULL-terminated, argv[0] the program.
 */
void job_program_name(const char *const *argv, char *out, size_t size);

/* Is a person there to answer? stdin or stderr is a terminal, and no scheduler or launcher has started us. */
bool job_is_interactive(void);

#endif

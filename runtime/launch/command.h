/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - other programs: their environment, and short ones whose output we read. */
#ifndef DDICT_LAUNCH_COMMAND_H
#define DDICT_LAUNCH_COMMAND_H

#include <stddef.h>

/*
 * The environment for Slurm's commands and for ddictd: only what they need of `from`, because
 * inherited input variables change what srun does in a dozen ways. Kept: PATH, HOME, USER,
 * LOGNAME, LANG, LC_ALL, TZ, SLURM_CONF, SLURM_CONF_SERVER, SLURM_JWT, SLURM_SACK_*,
 * SLURM_RESTART_COUNT, and DDICT_* but those that name a dictionary or ask for one.
 * DDICT_INTERNAL=<our pid> is added: it makes our plugin inert in a child of ours; and
 * SLURM_PMIX_DIRECT_CONN=false, for Slurm's PMIx. all: keep everything but those last, add no word
 * for PMIx (no Slurm: ddictd is our own child). malloc'ed array of strings of `from` (borrowed)
 * and ours; NULL without memory.
 */
char **command_environment(char *const *from, int all);
/* there is room for one more; borrowed */
void command_environment_add(char **env, char *entry);
/* What who reads sources needs besides: keys of S3, proxies, authorities of TLS. The beginnings of
 * names of variables, NULL-terminated. */
extern const char *const source_variables[];
/* Add those of `from` whose names begin so (names NULL: none); env is freed. There is room for one more,
 * again; NULL without memory. */
char **command_environment_more(char **env, char *const *from, const char *const *names);

/* Absolute path of a program: text with a slash is one already, or from the working folder; else
 * the first on PATH. 0 or -ENOENT. */
int command_find(const char *name, char *path, size_t cap);
/* A program that lies beside another one: the path of `beside` with its last part replaced. 0 or
 * -ENOENT. */
int command_beside(const char *beside, const char *name, char *path, size_t cap);

/* Close every descriptor from `first` on. Async-signal-safe. */
void command_close_from(int first);

/* Start argv[0] with the three descriptors (-1: /dev/null) in a session of its own, default
 * signals, every other descriptor closed, in /. The pid or a negative code. A program that cannot
 * be run says so on err and exits 127. */
int command_spawn(char *const *argv, char *const *envp, int in, int out, int err);

/* Run to the end and return its stdout (malloc'ed, 0-terminated, at most 8 MiB); 0, or a negative
 * code with the sentence set: -ENODATA if it exited with a failure and its stdout has an answer all
 * the same, -EIO if it failed otherwise. What else stands on stderr, such as a site's warning, does not count. */
int command_read(char *const *argv, char *const *envp, int timeout_ms, char **text);

#endif

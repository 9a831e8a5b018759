/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site.h - what the administrator says, in the file ddict.conf(5) and by words of the plugin's line
 * in plugstack.conf, which win. The words are those of option_table.h. libc only: the command and
 * the plugin use it; slurmd and slurmstepd read no file of ours.
 *
 *     struct settings s = { 0 };                                       nothing said
 *     site_read(&s, why, sizeof why);                                  the file, when there is one
 *     settings_take_word(&s, av[i], "plugstack.conf", why, ...);       each word of the line, later
 *                                                                      ones win
 *
 * The words are few, so a wrong one is an error and not skipped; what that error stops is the
 * caller's to decide.
 */
#ifndef DDICT_LAUNCH_SITE_H
#define DDICT_LAUNCH_SITE_H

#include "option_table.h"

#include <stddef.h>
#include <stdint.h>

/* The file DIR/ddict.conf, DIR being the sysconfdir it was configured with; a missing file is fine.
 * 0 or -EINVAL (-EACCES ...) with one sentence in why that names file and line; s then has the
 * words before it. */
int site_read(struct settings *s, char *why, size_t cap);
int site_read_file(struct settings *s, const char *path, char *why, size_t cap);

/* Against max_managers and max_mem, which are of what was asked for: mem is what it comes to. A
 * share is judged when the job's memory is known. 0 or -EINVAL. */
int site_judge(const struct settings *s, uint32_t managers, uint64_t mem, char *why, size_t cap);
/* Against max_mem_share: share bytes of mem on a node where the job has room bytes (0: not known).
 * */
int site_judge_share(const struct settings *s, enum option_id asked, uint64_t mem, unsigned copies,
                     uint64_t share, const char *node, uint64_t room, char *why, size_t cap);

#endif

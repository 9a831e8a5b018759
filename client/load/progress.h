/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - the line that the user sees while a load runs. */
#ifndef DDICT_LOAD_PROGRESS_H
#define DDICT_LOAD_PROGRESS_H

#include <stdint.h>

struct progress {
    uint64_t read, total, items, bytes, units, units_total;
    unsigned nodes;
};
void progress_start(void);
void progress_show(const struct progress *p);
/* Take the line away, before another one is printed on stderr. */
void progress_clear(void);
/* In the front: show a line of stderr of the leader, which runs elsewhere. */
void progress_line(char *line);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* bind.h - `ddict runtime --bind`: which GPUs each rank of a node would see, in which order. */
#ifndef DDICT_CMD_BIND_H
#define DDICT_CMD_BIND_H

#include <stdbool.h>

struct bind_ask {
    const char *how;      /* "closest", ... */
    const char *topology; /* a machine saved by lstopo, NULL: this one */
    /* as if so many ranks shared the cores in a row; 0: those that there are */
    int ranks;
    bool json;
};
/*
 * In a task of a step, where neither a topology nor ranks were asked for: lines for the shell,
 * `export NAME=value`, of this rank. Else a table of all ranks of the node. If the GPUs cannot be
 * bound, the variable stays as it is: the first rank of the node says so on stderr, and it is no
 * failure. Returns the exit code.
 */
int bind_print(const struct bind_ask *ask);

#endif

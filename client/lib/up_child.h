/* SPDX-License-Identifier: Apache-2.0 */
/*
 * up_child.h - `ddict up --program` as a child: its lines, and the pipe whose end ends it. STARTUP 3.
 * Not for several threads at once, but for up_child_close().
 */
#ifndef DDICT_LIB_UP_CHILD_H
#define DDICT_LIB_UP_CHILD_H

#include <base/clock.h>
#include <base/error.h>
#include <wire/attach.h>

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct up_child {
    pid_t pid;               /* 0: reaped */
    int in, out;             /* our ends of its stdin and stdout; -1: closed */
    bool ready, ended, over; /* it said so; over: it will say nothing more */
    bool kept;               /* ready: the dictionary outlives us, and the child ends */
    bool unsaved;            /* why is what was not saved */
    int status;              /* of waitpid(), when pid is 0; -1: somebody else reaped it */
    char name[DICT_NAME_MAX];
    char why[DD_ERRMSG_MAX]; /* "" or what went wrong */
    struct deadline silent;  /* it hangs when this is over */
    int silent_ms;
    char line[1024]; /* the unfinished one; longer ones are cut */
    size_t len;
};

/* Start it with the words of options (NULL: none) behind it. 0, or a negative code with the
 * sentence. */
int up_child_start(struct up_child *c, const char *const *options);
/* Read its lines until it is over or, `ready`, has said whether the dictionary can be used. 0;
 * -ETIMEDOUT: the time of d is over; -EIO: it has said nothing for too long. No sentence. */
int up_child_follow(struct up_child *c, bool ready, struct deadline *d);
/* Its stdin ends: so does the dictionary. */
void up_child_end(struct up_child *c);
/* Reap it, if it must be by SIGKILL, and close what is ours. */
void up_child_reap(struct up_child *c);
/* A forked child's copies. */
void up_child_close(struct up_child *c);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * starter.h - the life of what was started (ddictd, or the hidden srun around it), seen from its
 * starter. One thread; the owner has the poll loop:
 *
 *     starter_spawn()
 *     while (!starter_over(s)) {
 *         timeout = starter_poll(s, &fds[k]);   poll(fds, k + 2, timeout);
 *         starter_turn(s);                      and starter_reap(s) after each SIGCHLD
 *     }
 *     starter_free()
 *
 *     CREATING --all nodes said start--> WAITING --ready--> READY --drain--> DRAINING
 *     DRAINING --end, exit--> OVER
 *     WAITING --exists--> DRAINING: nothing of ours is left running
 *     any of them: too late, `error`, or the child is gone: STOPPING (SIGTERM), then KILLING
 *     (SIGKILL, scancel), then OVER with why set
 */
#ifndef DDICT_LAUNCH_STARTER_H
#define DDICT_LAUNCH_STARTER_H

#include "startup_lines.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>

#include <poll.h>
#include <stdint.h>
#include <sys/types.h>

enum starter_state {
    STARTER_CREATING,
    STARTER_WAITING,
    STARTER_READY,
    STARTER_DRAINING,
    STARTER_STOPPING,
    STARTER_KILLING,
    STARTER_OVER
};
#define STARTER_FDS  2
#define STARTER_TAIL 8192 /* bytes kept of what it says on stderr */
/* bytes of "4294967295.4294967295 " for each component that a job may have */
#define STARTER_STEPS (DD_COMPONENTS_MAX * 24)

struct starter {
    enum starter_state state;
    int ready;                   /* it was ready once */
    int exists;                  /* ready is another start's dictionary of this name; ours ends */
    int ended;                   /* it said `end`, or ended in order and was cut off */
    int cut;                     /* `end`, and what comes with it, did not arrive */
    int memory;                  /* its error was one of memory */
    int unsaved;                 /* it said `unsaved` */
    int gone;                    /* srun said before `ready` that a task is gone */
    char why[DD_ERRMSG_MAX];     /* "" or what went wrong, one sentence */
    char cut_off[DD_ERRMSG_MAX]; /* "" or what a node said that was cut off from the others */
    char about[256];             /* what stood behind `ready` */
    char *report;                /* JSON, ours; NULL when there was none */
    /* NULL, or gets LINE_WARN, _UNSAVED, _SAVING and _SUMMARY as they come; the owner sets it */
    void (*news)(void *arg, enum line_kind kind, const char *text);
    void *news_arg;

    pid_t pid;  /* 0: reaped */
    int status; /* of waitpid */
    /* our ends of its pipes, -1 closed; err is a pipe: a memfd would count against ulimit -f */
    int in, out, err;
    int echo; /* its stderr is shown as it comes ($DDICT_LOG) */
    uint32_t nodes, started;
    char **node_infos; /* ours, [nodes]: wire-up by stdio; NULL without */
    uint32_t node_infos_n;
    int sruns; /* one for each component of a heterogeneous job */
    /* "J.S" of the hidden step, or of several; "" as long as not known */
    char hidden_steps[STARTER_STEPS];
    int drain_ms, start_s, ready_ms; /* ready_ms: DD_READY_MS, or as start_times() */
    struct deadline limit;           /* of the present state */
    uint64_t say_at;                 /* clock_ms() of the progress line; 0: said */
    struct lines lines;
    char tail[STARTER_TAIL];
    size_t tail_len;
    char *const *envp; /* borrowed, for scancel */
    const char *srun;  /* borrowed; NULL: no step */
};

/* When it is over, of a dictionary with --save to `save` ("": none): whether something that was to
 * be saved was not. text: the sentence; "" where ddictd has said it. */
int starter_unsaved(const struct starter *s, const char *save, char *text, size_t cap);
/* argv, envp: borrowed, to stay as long as s. 0, or a negative code with the sentence set. */
int starter_spawn(struct starter *s, char *const *argv, char *const *envp, const char *srun,
                  uint32_t nodes, int drain_ms, int start_s);
/* Fill STARTER_FDS entries; returns the timeout for poll: -1 where nothing is due. */
int starter_poll(struct starter *s, struct pollfd *p);
void starter_turn(struct starter *s);
void starter_reap(struct starter *s);
/* Begin the end in order; again: no effect. The line `drain` is said before the EOF, which ddictd
 * --stay does not hear. */
void starter_drain(struct starter *s);
/* Give up; why may be NULL. */
void starter_stop(struct starter *s, const char *why);
/*
 * What is READY goes on without us, who may end. The process by which srun would end its step when
 * it dies (its child) is killed. srun stays where our plugin in it has made it harmless, else it is
 * killed (STARTUP 3). Then nobody who tidies up or signals the submit host's processes can hurt the
 * dictionary. ddictd itself is left alone. OVER after it.
 */
void starter_leave(struct starter *s);
static inline int starter_over(const struct starter *s) {
    return s->state == STARTER_OVER;
}
void starter_free(struct starter *s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * saving.h - --save: the dictionary, or what begins with a prefix, is on disk when it ends (HANDSHAKE 7).
 *
 *     saver.c    the child of this node that writes
 *     saving.c   node 0: when all nodes make a pass, what came of it, and that the end waits for the last one
 */
#ifndef DDICT_MANAGER_SAVING_H
#define DDICT_MANAGER_SAVING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct supervisor;

enum save_what { SAVE_PASS = 1, SAVE_STOP, SAVE_DONE };
struct save_word { /* travels in CTL_SAVE */
    uint32_t what, node;
    uint64_t pass;                   /* its number */
    uint64_t items, bytes, same, of; /* of this node; of: how many there are to be saved */
    uint64_t left_out;
    uint32_t ok, pad;
    char text[400]; /* why not; ok: the first that was left out */
};

/* --- saver.c --- */
int saver_start(struct supervisor *s); /* before the dictionary is ready */
bool saver_ready(
    const struct supervisor *s); /* the folder of this node can be written, or there is no --save */
bool saver_is(pid_t pid);
void saver_command(struct supervisor *s,
                   const char *command); /* static text; saving_answered() follows */
const struct save_word *saver_at(void);  /* how far it is */
void saver_stop(void);                   /* it should answer at once */
void saver_kill(void);
void saver_reaped(struct supervisor *s); /* SIGCHLD */
void saver_end(void);

/* --- saving.c --- */
void saving_begin(struct supervisor *s);                               /* the dictionary is ready */
void saving_answered(struct supervisor *s, const struct save_word *w); /* our saver */
int saving_heard(struct supervisor *s, bool from_parent, const void *payload,
                 size_t len); /* 0 or DDICT_EPROTO */
/* Node 0, nobody uses the dictionary any more: true: it is being saved, and supervisor_end() follows. */
bool saving_end(struct supervisor *s);
void saving_hurry(struct supervisor *s); /* SIGTERM: SIGKILL is next */
int saving_wait_ms(const struct supervisor *s,
                   int wait_ms); /* from SIGTERM: how long clients may go on, asked for wait_ms */
void saving_lost(struct supervisor *s); /* the dictionary is */
/* What came of it, a clause for the summary. */
const char *saving_said(const struct supervisor *s); /* "" without --save */
void saving_fini(struct supervisor *s);

#endif

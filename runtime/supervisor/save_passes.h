/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save_passes.h - --save: the dictionary, or what begins with a prefix, is on disk when it ends
 * (SAVE 3).
 *
 *     save_child.c   the child of this node that writes
 *     save_passes.c  on who decides: when the nodes make a pass, its result, and the wait for the last
 *                    one at the end
 */
#ifndef DDICT_SUPERVISOR_SAVE_PASSES_H
#define DDICT_SUPERVISOR_SAVE_PASSES_H

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
    char text[400]; /* why it failed; where ok: the first key that was left out */
};

/* --- save_child.c --- */
int save_child_start(struct supervisor *s); /* before the dictionary is ready */
/* True: the folder can be written on this node, or there is no --save. */
bool save_child_is_ready(const struct supervisor *s);
bool save_child_is(pid_t pid);
/* command: static text. save_passes_answered() follows. */
void save_child_command(struct supervisor *s, const char *command);
const struct save_word *save_child_progress(void); /* its progress */
void save_child_stop(void);                        /* it should answer soon */
void save_child_kill(void);
void save_child_reap(struct supervisor *s); /* SIGCHLD */
void save_child_end(void);

/* --- save_passes.c --- */
/* the dictionary is ready */
void save_passes_begin(struct supervisor *s);
void save_passes_answered(struct supervisor *s, const struct save_word *w); /* by our save child */
/* 0 or DDICT_EPROTO */
int save_passes_hear(struct supervisor *s, bool from_parent, const void *payload, size_t len);
/* On who decides, when nobody uses the dictionary any more. True: the last pass runs, and
 * supervisor_end() follows. */
bool save_passes_last_begin(struct supervisor *s);
/* On who decides, with --replicas=2: the dictionary goes on without this node, whose part of the pass that
 * runs is not whole. */
void save_passes_node_lost(struct supervisor *s, uint32_t node);
void save_passes_served(struct supervisor *s); /* likewise: its keys are served by others now */
/* takeover.h: another node decides now, or we do; then save_passes_served() follows when all have said
 * what they have. */
void save_passes_below(struct supervisor *s);
void save_passes_takeover(struct supervisor *s);
void save_passes_hurry(struct supervisor *s); /* SIGTERM: SIGKILL is next */
/* How long clients may go on after SIGTERM, where wait_ms are wanted. */
int save_passes_wait_ms(const struct supervisor *s, int wait_ms);
void save_passes_lost(struct supervisor *s); /* the dictionary is lost */
/* The result, a clause for the summary. */
const char *save_passes_outcome(const struct supervisor *s); /* "" without --save */
void save_passes_end(struct supervisor *s);

#endif

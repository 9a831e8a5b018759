/* SPDX-License-Identifier: Apache-2.0 */
/* meet_ask.h - the rendezvous of a step: MASTER_ADDR and MASTER_PORT for torch's
 * init_process_group("env://"). */
#ifndef DDICT_PLACE_MEET_ASK_H
#define DDICT_PLACE_MEET_ASK_H

#include <stdint.h>

struct meeting_place {
    char address[64], port[8];
};

/*
 * Ask this node's ddictd of dictionary `name` (PROTOCOL 4, MEET). All ranks of step "12.3" get the
 * same; the asking process with rank 0 is the one that will listen there, and the port is kept for
 * it until it ends. Waits for rank 0, at most DD_RENDEZVOUS_MS and a little. 0 or a negative code
 * with a sentence.
 */
int meet_ask_place(struct meeting_place *p, const char *name, const char *step, uint32_t rank);

#endif

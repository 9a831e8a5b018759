/* SPDX-License-Identifier: Apache-2.0 */
/* client_lives_once.h - writers whose changes are each made once, whatever dies meanwhile. */
#ifndef DDICT_TESTS_CLIENT_LIVES_ONCE_H
#define DDICT_TESTS_CLIENT_LIVES_ONCE_H

#include "client_dict.h"

#include <stddef.h>

#define ONCE_WRITERS 3u
#define ONCE_OWN     7u /* keys of each writer */

struct once {
    const char *queue, *sum;
    const char *count; /* what all have added to */
    const char *own[ONCE_WRITERS][ONCE_OWN];
    unsigned rounds;
    size_t (*len)(unsigned round); /* of a writer's value */
    unsigned wait; /* DDICT_WAIT: a pop waits until the other writer has put it back; or 0 */
    void (*kills)(unsigned times);
};

/* All writers, each a process, while managers are killed so many times at any moment (0: they kill
 * themselves). The dictionary is empty before and behind it. */
void once_check(ddict_t *d, const struct once *o, unsigned kills);

#endif

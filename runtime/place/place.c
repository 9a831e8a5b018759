/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - ask PMIx, else Slurm's variables, else be alone; the calls of place.h by who answered. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "place/backend.h"

static void node_name(char *buf, size_t cap) {
    const char *v = getenv("SLURMD_NODENAME");

    if (v != NULL && *v != '\0' && strlen(v) < cap) {
        strcpy(buf, v);
        return;
    }
    if (gethostname(buf, cap) < 0)
        strcpy(buf, "localhost");
    buf[cap - 1] = '\0';
    buf[strcspn(buf, ".")] = '\0';
}

int place_init(struct place *p, int use_pmix) {
    int rc = -ENOENT;

    memset(p, 0, sizeof *p);
    node_name(p->node, sizeof p->node);
    if (use_pmix)
        rc = pmix_init(p);
    if (rc == -ENOENT)
        rc = slurm_env_init(p);
    if (rc == -ENOENT) {
        p->how = PLACE_SINGLE;
        p->size = p->local_size = p->nodes = 1;
        rc = 0;
    }
    return rc;
}

int place_exchange(struct place *p, const void *card, size_t len, void **cards, size_t *lens, int timeout_ms) {
    if (p->how == PLACE_PMIX)
        return pmix_exchange(p, card, len, cards, lens, timeout_ms);
    if (p->size != 1)
        return dd_error(-ENOTSUP, "%d tasks cannot exchange addresses: there is no PMIx here (srun --mpi=pmix)", p->size);
    cards[0] = malloc(len + 1);
    if (cards[0] == NULL)
        return -ENOMEM;
    memcpy(cards[0], card, len);
    lens[0] = len;
    return 0;
}

int place_fence(struct place *p, int timeout_ms) {
    if (p->how == PLACE_PMIX)
        return pmix_fence(timeout_ms);
    return p->size == 1 ? 0 : dd_error(-ENOTSUP, "%d tasks cannot meet: there is no PMIx here (srun --mpi=pmix)", p->size);
}

void place_finalize(struct place *p) {
    if (p->how == PLACE_PMIX)
        pmix_finalize();
    p->how = PLACE_SINGLE;
}

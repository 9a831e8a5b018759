/* SPDX-License-Identifier: Apache-2.0 */
/* decider.c - what nodes say of the keys of one owner to who decides. */
#include "decider.h"

void decider_tell(struct supervisor *s, unsigned type, control_heard *heard, uint32_t owner,
                  uint64_t epoch, const void *word, size_t len) {
    struct control_said m = {.node = s->node_id,
                             .type = type,
                             .manager = owner,
                             .aux = epoch,
                             .payload = word,
                             .len = len};
    if (control_decides(s))
        heard(s, &m);
    else
        control_copy(s, type, owner, epoch, word, len);
}

bool decider_has_row(const struct supervisor *s, const struct control_said *m) {
    return s->owner_map && m->manager < s->managers && deal_owns(&s->deal, m->manager);
}

const struct owner_place *decider_row(const struct supervisor *s, const struct control_said *m) {
    if (!control_decides(s) || s->stage >= STAGE_ENDING)
        return NULL;
    const struct owner_place *row = owner_map_next(s, m->manager);
    return row->epoch == m->aux ? row : NULL;
}

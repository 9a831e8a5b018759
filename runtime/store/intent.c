/* SPDX-License-Identifier: Apache-2.0 */
/* intent.c - the record of the one change of the index that is under way (I16). */
#include <store/state.h>

void intent_begin(struct store *s, enum intent_op op, struct store_request who, uint64_t *place, uint64_t old_word, uint64_t new_word,
                  uint64_t version) {
    struct intent *i = &s->header->intent;
    __atomic_store_n(&i->state, INTENT_NONE, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* killed here, the half written record is not taken for one */
    i->client = who.client;
    i->request = who.request;
    i->place = (uint64_t)((uint8_t *)place - s->map);
    i->old_word = old_word;
    i->new_word = new_word;
    i->result = 0;
    i->version = version;
    i->op = op;
    __atomic_store_n(&i->state, INTENT_OPEN, __ATOMIC_RELEASE);
    if (MUTANT(MUTANT_EARLY_DONE)) intent_done(s);
    STRESS_POINT(STRESS_W_INTENT);
}

void intent_done(struct store *s) { __atomic_store_n(&s->header->intent.state, INTENT_DONE, __ATOMIC_RELEASE); }

void intent_finish(struct store *s) {
    struct intent *i = &s->header->intent;
    if (i->state != INTENT_OPEN) return;
    const uint64_t *place = arena_at(s, i->place);
    __atomic_store_n(&i->state, *place == i->new_word ? INTENT_DONE : INTENT_NONE, __ATOMIC_RELEASE);
}

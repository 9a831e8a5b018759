/* SPDX-License-Identifier: Apache-2.0 */
/* intent.c - the record of the one change of the index that is under way (I16). */
#include <store/state.h>

static void begin(struct store *s, enum intent_op op, struct store_request who, uint64_t *place,
                  uint64_t old_word, uint64_t new_word, uint64_t version,
                  const struct place *hidden, uint64_t hidden_version) {
    struct intent *i = &s->header->intent;
    __atomic_store_n(&i->state, INTENT_NONE, __ATOMIC_RELEASE);
    __atomic_signal_fence(
        __ATOMIC_SEQ_CST); /* killed here, the half written record is not taken for one */
    i->client = who.client;
    i->request = who.request;
    i->place = (uint64_t)((uint8_t *)place - s->map);
    i->old_word = old_word;
    i->new_word = new_word;
    i->result = 0;
    i->version = version;
    i->op = op;
    i->hidden_place = hidden ? (uint64_t)((uint8_t *)hidden->slot - s->map) : 0;
    i->hidden_word = hidden ? hidden->word : 0;
    i->hidden_hash = hidden ? hidden->hash : 0;
    i->hidden_version = hidden_version;
    __atomic_store_n(&i->state, INTENT_OPEN, __ATOMIC_RELEASE);
    if (MUTANT(MUTANT_EARLY_DONE))
        intent_done(s);
    STRESS_POINT(STRESS_W_INTENT);
}

void intent_begin(struct store *s, enum intent_op op, struct store_request who, uint64_t *place,
                  uint64_t old_word, uint64_t new_word, uint64_t version) {
    begin(s, op, who, place, old_word, new_word, version, NULL, 0);
}

void intent_begin_next(struct store *s, struct store_request who, const struct place *first,
                       uint64_t word, const struct place *hidden, uint64_t version) {
    begin(s, INTENT_POP, who, first->slot, first->word, word, s->header->version, hidden, version);
}

void intent_done(struct store *s) {
    __atomic_store_n(&s->header->intent.state, INTENT_DONE, __ATOMIC_RELEASE);
}

static void next_finish(struct store *s, const struct intent *i, bool happened) {
    uint64_t *slot = arena_at(s, i->hidden_place);
    struct item *item = arena_at(s, WORD_OFFSET(i->hidden_word));
    if (happened) {
        if (*slot != i->hidden_word)
            return;
        word_store(slot, WORD_EMPTY);
        segment_at(s, segment_number(s, i->hidden_place))->live--;
        return;
    }
    item->hash = i->hidden_hash;
    item->version = i->hidden_version;
    item->check = item_check(item);
}

void intent_finish(struct store *s) {
    struct intent *i = &s->header->intent;
    if (i->state != INTENT_OPEN)
        return;
    const uint64_t *place = arena_at(s, i->place);
    if (i->hidden_place)
        next_finish(s, i, *place == i->new_word);
    __atomic_store_n(&i->state, *place == i->new_word ? INTENT_DONE : INTENT_NONE,
                     __ATOMIC_RELEASE);
}

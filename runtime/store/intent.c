/* SPDX-License-Identifier: Apache-2.0 */
/* intent.c - the record of a pop with a next value while it is under way (I16). */
#include "intent.h"

#include "index.h"
#include "segment.h"

void intent_begin(struct store *s, const struct index_place *first, uint64_t word,
                  const struct index_place *hidden, uint64_t version) {
    struct intent *i = &s->header->intent;
    i->place = (uint64_t)((uint8_t *)first->slot - s->map);
    i->new_word = word;
    i->hidden_place = (uint64_t)((uint8_t *)hidden->slot - s->map);
    i->hidden_word = hidden->word;
    i->hidden_hash = hidden->hash;
    i->hidden_version = version;
    __atomic_store_n(&i->open, 1, __ATOMIC_RELEASE);
    if (MUTANT(MUTANT_EARLY_DONE))
        intent_done(s);
    STRESS_POINT(STRESS_W_READY);
}

void intent_done(struct store *s) {
    __atomic_store_n(&s->header->intent.open, 0, __ATOMIC_RELEASE);
}

void intent_finish(struct store *s) {
    const struct intent *i = &s->header->intent;
    if (!i->open)
        return;
    const uint64_t *place = arena_at(s, i->place);
    uint64_t *slot = arena_at(s, i->hidden_place);
    struct item *item = arena_at(s, WORD_OFFSET(i->hidden_word));
    if (*place != i->new_word) {
        item->hash = i->hidden_hash;
        item->version = i->hidden_version;
        item->check = item_check(item);
    } else if (*slot == i->hidden_word) {
        word_store(slot, WORD_EMPTY);
        segment_at(s, segment_number(s, i->hidden_place))->live--;
    }
    intent_done(s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operation.c - the record of the change that a request makes (I24). A change is one store of a
 * word, so a look at the word says whether it happened; the record says which word, and for whom.
 */
#include "operation.h"

static void kind_set(struct store *s, enum operation_kind kind) {
    __atomic_store_n(&s->header->op.kind, kind, __ATOMIC_RELEASE);
}

static void client_set(struct store *s, uint64_t client) {
    __atomic_store_n(&s->header->op.client, client, __ATOMIC_RELEASE);
}

void store_begin(struct store *s, const struct store_source *from) {
    struct operation *op = &s->header->op;
    /* first: what the last one changed must never be taken for this one's */
    if (!MUTANT(MUTANT_STALE_OPERATION))
        kind_set(s, OPERATION_NONE);
    client_set(s, 0);
    s->recording = from;
    if (!from)
        return;
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* nobody's while the fields change */
    op->at = from->at;
    op->id = from->id;
    op->before = from->before;
    client_set(s, from->client);
}

/* Only the first change after store_begin() is the request's. */
static bool operation_takes(struct store *s) {
    bool takes = s->recording;
    s->recording = false;
    return takes;
}

void operation_word(struct store *s, const uint64_t *slot, uint64_t word, uint64_t item) {
    struct operation *op = &s->header->op;
    if (!operation_takes(s))
        return;
    op->place = (uint64_t)((const uint8_t *)slot - s->map);
    op->word = word;
    op->item = item;
    kind_set(s, OPERATION_WORD);
}

void operation_clear(struct store *s) {
    struct operation *op = &s->header->op;
    if (!operation_takes(s))
        return;
    op->place = op->item = 0;
    op->word = ROOT_GENERATION(s->header->root);
    kind_set(s, OPERATION_CLEAR);
}

void operation_open(struct store *s) {
    const struct arena_header *h = s->header;
    const struct operation *op = &h->op;
    if (op->kind == OPERATION_WORD && op->place < s->map_len - sizeof(uint64_t))
        s->happened = *(const uint64_t *)arena_at(s, op->place) == op->word;
    else if (op->kind == OPERATION_CLEAR)
        s->happened = ROOT_GENERATION(h->root) != op->word;
}

bool store_fate(struct store *s, struct store_fate *out) {
    const struct operation *op = &s->header->op;
    *out = (struct store_fate){
        .from = {.client = op->client, .at = op->at, .id = op->id, .before = op->before},
        .happened = s->happened,
        .item = op->item};
    if (s->happened && op->kind == OPERATION_WORD && WORD_LIVE(op->word)) {
        const struct item *item = arena_at(s, WORD_OFFSET(op->word));
        out->version = op->word & WORD_HIDDEN ? 0 : item->version;
        out->put = item;
    }
    return op->client != 0;
}

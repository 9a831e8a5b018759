/* SPDX-License-Identifier: Apache-2.0 */
/* store_crash_steps.c - what a manager does until it is killed. */
#include "store_crash.h"
#include <base/error.h>
#include <store/heap.h>
#include <store/pages.h>

#include <errno.h>
#include <string.h>

/* What a change makes of a queue is settled before it begins: a manager may be killed in the middle
 * of acknowledge(), and it is done once more. */
static void queue_change(uint64_t q, uint64_t op) {
    shared->head = shared->queue[q].head + (op == POP);
    shared->tail = shared->queue[q].tail + (op == PUSH);
    shared->was = shared->queue[q].tail - shared->queue[q].head;
    if (op == DEL)
        shared->head = shared->tail;
}
static void begin(struct store *s, uint64_t key, uint64_t next) {
    struct store_source from = {.client = 1, .at = shared->requests + 1};
    shared->key = key;
    shared->next = next;
    if (key >= QUEUE(0))
        queue_change(key - QUEUE(0), next);
    shared->requests++;
    __atomic_store_n(&shared->busy, 1, __ATOMIC_SEQ_CST);
    STRESS_POINT(STRESS_W_READY);
    store_begin(s, &from);
    STRESS_POINT(STRESS_W_READY);
}
void acknowledge(void) {
    if (shared->key < KEYS)
        shared->version[shared->key] = shared->next;
    else if (shared->key >= QUEUE(0)) {
        uint64_t q = shared->key - QUEUE(0);
        shared->queue[q].head = shared->head;
        shared->queue[q].tail = shared->tail;
    } else {
        memset(shared->version, 0, sizeof shared->version);
        for (uint64_t q = 0; q < QUEUES; q++)
            shared->queue[q].head = shared->queue[q].tail;
    }
    __atomic_store_n(&shared->busy, 0, __ATOMIC_SEQ_CST);
}

void put(struct store *s, uint64_t key) {
    char name[32];
    struct store_ref ref;
    uint64_t v = ++shared->last, n = words(key, v);
    if (store_reserve(s, name, name_of(name, key), n * 8, 0, &ref) < 0)
        return; /* full */
    for (uint64_t i = 0; i < n; i++)
        ((uint64_t *)ref.value)[i] = word(key, v, i);
    begin(s, key, v);
    if (store_commit(s, &ref, STORE_ANY, NULL) == 0)
        acknowledge();
    else {
        __atomic_store_n(&shared->busy, 0, __ATOMIC_SEQ_CST);
        store_abort(s, &ref);
    }
}

/* A popped item stays as it is until it is unpinned. */
static uint64_t popped, popped_key, popped_version; /* offset, 0: none */
static void popped_end(struct store *s) {
    const struct item *item = arena_at(s, popped);
    if (!right(store_value(s, item), item_len(item), popped_key, popped_version))
        fail("a popped value changed", popped_key);
    store_unpin(s, popped);
    popped = 0;
}

static void take(struct store *s, uint64_t key) {
    char name[32];
    struct store_ref ref;
    uint32_t len = name_of(name, key);
    if (!popped && next_random() % 4 == 0) {
        if (store_find(s, name, len, &ref) < 0)
            return;
        begin(s, key, 0);
        popped_key = key;
        popped_version = shared->version[key];
        if (store_remove(s, name, len, &ref) < 0)
            fail("pop", key);
        popped = ref.off;
        acknowledge();
        return;
    }
    begin(s, key, 0);
    store_remove(s, name, len, NULL);
    acknowledge();
}

void push(struct store *s, uint64_t q) {
    char name[32];
    struct store_ref ref, there;
    uint64_t v = shared->queue[q].tail, n = words(QUEUE(q), v);
    uint32_t len = name_of(name, QUEUE(q));
    if (v - shared->queue[q].head > QUEUE_MAX || store_reserve(s, name, len, n * 8, 0, &ref) < 0)
        return;
    for (uint64_t i = 0; i < n; i++)
        ((uint64_t *)ref.value)[i] = word(QUEUE(q), v, i);
    begin(s, QUEUE(q), PUSH);
    if ((store_find(s, name, len, &there) == 0 ? store_queue_push(s, &ref)
                                               : store_commit(s, &ref, STORE_NEW, NULL)) == 0)
        acknowledge();
    else {
        __atomic_store_n(&shared->busy, 0, __ATOMIC_SEQ_CST);
        store_abort(s, &ref);
    }
}

void pop(struct store *s, uint64_t q) {
    char name[32];
    struct store_ref ref;
    uint64_t head = shared->queue[q].head;
    begin(s, QUEUE(q), POP);
    int rc = store_pop(s, name, name_of(name, QUEUE(q)), &ref, NULL);
    if (rc != (head == shared->queue[q].tail ? DDICT_ENOKEY : 0))
        fail("pop of a queue", q);
    if (rc == 0)
        acknowledge();
    else
        __atomic_store_n(&shared->busy, 0, __ATOMIC_SEQ_CST);
    if (rc < 0)
        return;
    if (!right(store_value(s, ref.item), item_len(ref.item), QUEUE(q), head))
        fail("not the first value of the queue", q);
    store_unpin(s, ref.off);
}

static void queue_step(struct store *s, uint64_t r) {
    uint64_t q = r % QUEUES;
    char name[32];
    if (r / 8 % 64 == 0) {
        begin(s, QUEUE(q), DEL);
        if (store_remove(s, name, name_of(name, QUEUE(q)), NULL) == 0)
            acknowledge();
        else
            __atomic_store_n(&shared->busy, 0, __ATOMIC_SEQ_CST);
    } else if (r / 8 % 8 < 5)
        push(s, q);
    else
        pop(s, q);
}

static void cache(struct store *s, uint64_t key) {
    char name[32];
    struct store_ref ref;
    uint64_t v = FREEZE_EPOCH(s->header->freeze), n = words(key, v);
    /* full */
    if (store_cache_reserve(s, name, name_of(name, key), n * 8, 0, v, &ref) < 0)
        return;
    for (uint64_t i = 0; i < n; i++)
        ((uint64_t *)ref.value)[i] = word(key, v, i);
    if (store_cache_add(s, &ref) < 0)
        store_abort(s, &ref);
}

static void stay_frozen(struct store *s) {
    uint64_t epoch = FREEZE_EPOCH(s->header->freeze) + 1, evicted = 0;
    store_freeze(s, epoch, FREEZE_CLOSED);
    store_freeze(s, epoch, FREEZE_FROZEN);
    for (int i = 0; i < 60; i++) {
        uint64_t r = next_random();
        cache(s, KEYS + r % FOREIGN);
        if (i > 20 && r >> 8 & 1)
            store_cache_evict(s, 1, 8, &evicted);
    }
    store_freeze(s, epoch, FREEZE_CLOSED);
    while (store_cache_drop(s, 7)) {
    }
    store_freeze(s, epoch, FREEZE_OPEN);
}

void squeeze(struct store *s) {
    struct store_ref ref;
    uint64_t want = pages_available(s) * ARENA_PAGE + heap_scattered(s) / 2;
    int rc = -EINPROGRESS;
    uint64_t scan = 0;
    for (int turns = 0; rc == -EINPROGRESS && turns < 20; turns++) {
        rc = store_reserve_again(s, "room", 4, want, 0, &ref, &scan);
        store_work(s);
    }
    if (rc == 0)
        store_abort(s, &ref);
}

void manager(struct store *s) {
    store_freeze(s, FREEZE_EPOCH(s->header->freeze), FREEZE_OPEN);
    for (uint64_t step = 1;; step++) {
        uint64_t r = next_random(), key = (r >> 16) % KEYS;
        if (r % 256 == 1)
            stay_frozen(s);
        if (r % 64 == 3)
            squeeze(s);
        if (r % 4096 == 0) {
            begin(s, KEYS, ROOT_GENERATION(s->header->root));
            if (store_clear(s) < 0)
                fail("clear", 0);
            acknowledge();
        } else if (r % 4 == 0)
            take(s, key);
        else if (r % 4 == 2)
            queue_step(s, r >> 16);
        else
            put(s, key);
        if (popped && r % 61 == 0)
            popped_end(s);
        if (step % 8 == 0)
            store_work(s);
        if (step % 100 == 0)
            store_idle(s);
        if (step % 500 == 0)
            store_reclaim(s);
    }
}

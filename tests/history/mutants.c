/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutants.c - a ddictd with one intended bug, named by $HISTORY_MUTANT, for mutants.py: the linker
 * puts the functions here between the managers and the store (--wrap), so that the product has no
 * line for it.
 *
 *     pop_leaves      a pop gives the value, and now and then it is stored again
 *     new_replaces    a put with DDICT_NEW now and then replaces what is there
 *     early_answer    a put is answered, and the word of the index swings in a later turn
 *     late_del        a del is answered, and the key goes in a later turn
 *     twice           the next life of a manager carries out again a put that the one before had
 *                     answered
 *     twice_newest    the same of the newest put, with no change behind it
 *     leases_unknown  the leases of every other client are not known: their blocks are used again
 *     push_twice      a value that is pushed is now and then there twice
 *     push_lost       a push is answered, and its value now and then dropped
 *     push_late       a push is answered, and its value now and then goes behind that of the next
 *     pop_two         a pop now and then removes two values of a queue, and gives the first
 *     frozen_open     a manager says that it is frozen, and now and then is not
 *     frozen_once     the next life of a manager that was frozen is not
 *     memory_lost     a put now and then takes a block that nobody ever frees
 *     copy_missed     with --replicas a value is now and then replaced or deleted without the backup
 *     results_dropped a backup writes no results of what it carries out
 *     add_twice       an add is now and then made twice, and answered with the first sum
 *     copy_early      a change is answered when it was sent to the backup, which may not have it
 *
 * One manager for each ddictd.
 */
#include <manager/freeze.h>
#include <manager/replica_flight.h>
#include <manager/results.h>
#include <store/store.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KEY_CAP   64u
#define VALUE_CAP 4096u
#define TAG_INT   5u /* doc/FORMAT.md */
#define KEPT      8u /* puts that the next life may find */

enum {
    POP_LEAVES = 1,
    NEW_REPLACES,
    EARLY_ANSWER,
    LATE_DEL,
    TWICE,
    TWICE_NEWEST,
    LEASES_UNKNOWN,
    PUSH_TWICE,
    PUSH_LOST,
    PUSH_LATE,
    POP_TWO,
    FROZEN_OPEN,
    FROZEN_ONCE,
    MEMORY_LOST,
    COPY_MISSED,
    RESULTS_DROPPED,
    COPY_EARLY,
    ADD_TWICE
};
static const char *const names[] = {"",
                                    "pop_leaves",
                                    "new_replaces",
                                    "early_answer",
                                    "late_del",
                                    "twice",
                                    "twice_newest",
                                    "leases_unknown",
                                    "push_twice",
                                    "push_lost",
                                    "push_late",
                                    "pop_two",
                                    "frozen_open",
                                    "frozen_once",
                                    "memory_lost",
                                    "copy_missed",
                                    "results_dropped",
                                    "copy_early",
                                    "add_twice"};
static unsigned mutant, chance;

/* What outlives a manager; of ddictd, which forks it. */
static struct shared {
    unsigned lives, puts;
    struct put {
        uint32_t key_len, val_len;
        uint8_t tag, key[KEY_CAP], value[VALUE_CAP];
    } put[KEPT];
} * shared;
static struct {
    bool on;
    struct store_ref ref;
} pushed;          /* what goes behind the next */
static bool again; /* a put is to be carried out again */

static struct {
    bool on;
    unsigned turns;
    struct store *s;
    struct store_ref ref;
    uint32_t key_len; /* a del; 0: a put */
    uint8_t key[KEY_CAP];
} late;

int __real_store_open(struct store **out, int fd, int spill_fd, unsigned local_index);
int __real_store_commit(struct store *s, struct store_ref *ref, enum store_mode mode,
                        uint64_t *version);
int __real_store_find(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref);
int __real_store_remove(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref);
int __real_store_pop(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref,
                     struct store_ref *next);
bool __real_store_work(struct store *s);
int __real_store_leases_add(struct store *s, uint64_t id, const void *map, uint32_t pid);
int __real_store_queue_push(struct store *s, struct store_ref *ref);
int __real_freeze_init(struct manager *m);
void __real_freeze_take(struct manager *m, const struct sup_msg *sup);
int __real_flight_send(struct requester *a, const struct msg *req, enum repl_op op, const void *key,
                       uint64_t hash, struct store_ref *ref, uint64_t began, uint64_t most);
bool __real_flights_commit(struct manager *m);
void __real_results_enter(struct manager *m, uint32_t proxy, uint64_t id, uint64_t version,
                          const struct store_ref *popped);

int __wrap_store_open(struct store **out, int fd, int spill_fd, unsigned local_index);
int __wrap_store_commit(struct store *s, struct store_ref *ref, enum store_mode mode,
                        uint64_t *version);
int __wrap_store_find(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref);
int __wrap_store_remove(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref);
int __wrap_store_pop(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref,
                     struct store_ref *next);
bool __wrap_store_work(struct store *s);
int __wrap_store_leases_add(struct store *s, uint64_t id, const void *map, uint32_t pid);
int __wrap_store_queue_push(struct store *s, struct store_ref *ref);
int __wrap_freeze_init(struct manager *m);
void __wrap_freeze_take(struct manager *m, const struct sup_msg *sup);
int __wrap_flight_send(struct requester *a, const struct msg *req, enum repl_op op, const void *key,
                       uint64_t hash, struct store_ref *ref, uint64_t began, uint64_t most);
bool __wrap_flights_commit(struct manager *m);
void __wrap_results_enter(struct manager *m, uint32_t proxy, uint64_t id, uint64_t version,
                          const struct store_ref *popped);

__attribute__((constructor)) static void mutant_choose(void) {
    const char *name = getenv("HISTORY_MUTANT");
    for (unsigned i = 1; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            mutant = i;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
}

static bool puts_again(void) {
    return mutant == TWICE || mutant == TWICE_NEWEST;
}

static bool now_and_then(void) {
    return ++chance % 8 == 0;
}

/* What was put off. */
static void late_do(void) {
    if (!late.on)
        return;
    late.on = false;
    if (late.key_len > 0)
        __real_store_remove(late.s, late.key, late.key_len, NULL);
    else
        __real_store_commit(late.s, &late.ref, STORE_ANY, NULL);
}

static void value_put(struct store *s, const void *key, uint32_t key_len, const void *value,
                      uint64_t val_len, uint8_t tag) {
    struct store_ref ref;
    if (store_reserve_memory(s, key, key_len, val_len, tag, &ref) != 0)
        return;
    memcpy(ref.value, value, val_len);
    if (__real_store_commit(s, &ref, STORE_ANY, NULL) != 0)
        store_abort(s, &ref);
}

static void sum_again(struct store *s, const struct item *i) {
    char text[24] = "";
    memcpy(text, item_value(i), i->val_len);
    snprintf(text, sizeof text, "%lld", atoll(text) + 1);
    value_put(s, i->key, i->key_len, text, strlen(text), TAG_INT);
}

static void put_keep(const struct store_ref *ref) {
    const struct item *i = ref->item;
    struct put *p = &shared->put[shared->puts % KEPT];
    if (i->key_len > KEY_CAP || i->val_len > VALUE_CAP || !ref->value)
        return;
    p->key_len = i->key_len;
    p->val_len = (uint32_t)i->val_len;
    p->tag = i->tag;
    memcpy(p->key, i->key, i->key_len);
    memcpy(p->value, ref->value, i->val_len);
    shared->puts++;
}

int __wrap_store_open(struct store **out, int fd, int spill_fd, unsigned local_index) {
    again = puts_again() && ++shared->lives > 1 && shared->puts >= KEPT;
    return __real_store_open(out, fd, spill_fd, local_index);
}

int __wrap_store_commit(struct store *s, struct store_ref *ref, enum store_mode mode,
                        uint64_t *version) {
    late_do();
    if (mutant == NEW_REPLACES && mode == STORE_NEW && now_and_then())
        mode = STORE_ANY;
    if (mutant == EARLY_ANSWER && mode == STORE_ANY && now_and_then()) {
        late.on = true;
        late.turns = 0;
        late.s = s;
        late.ref = *ref;
        late.key_len = 0;
        return 0;
    }
    struct store_ref lost;
    if (mutant == MEMORY_LOST && now_and_then())
        store_reserve_memory(s, "lost", 4, VALUE_CAP, 0, &lost);
    int e = __real_store_commit(s, ref, mode, version);
    if (e == 0 && puts_again())
        put_keep(ref);
    if (e == 0 && mutant == ADD_TWICE && ref->item->tag == TAG_INT && now_and_then())
        sum_again(s, ref->item);
    return e;
}

int __wrap_store_find(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref) {
    late_do();
    return __real_store_find(s, key, key_len, ref);
}

int __wrap_store_remove(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref) {
    struct store_ref found;
    late_do();
    if (mutant != LATE_DEL || ref || key_len > KEY_CAP || !now_and_then())
        return __real_store_remove(s, key, key_len, ref);
    int e = __real_store_find(s, key, key_len, &found);
    if (e < 0)
        return e;
    late.on = true;
    late.turns = 0;
    late.s = s;
    late.key_len = key_len;
    memcpy(late.key, key, key_len);
    return 0;
}

int __wrap_store_pop(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref,
                     struct store_ref *next) {
    late_do();
    int e = __real_store_pop(s, key, key_len, ref, next);
    if (e == 0 && mutant == POP_LEAVES && ref->value && now_and_then())
        value_put(s, key, key_len, ref->value, ref->item->val_len, ref->item->tag);
    struct store_ref second;
    if (e == 0 && mutant == POP_TWO && next->item && now_and_then() &&
        __real_store_pop(s, key, key_len, &second, next) == 0)
        store_unpin(s, second.off);
    return e;
}

/* Of a value that is in memory. */
static void push_again(struct store *s, const struct store_ref *ref) {
    const struct item *i = ref->item;
    struct store_ref copy;
    if (!ref->value || store_reserve_memory(s, i->key, i->key_len, i->val_len, i->tag, &copy) != 0)
        return;
    memcpy(copy.value, ref->value, i->val_len);
    if (__real_store_queue_push(s, &copy) != 0)
        store_abort(s, &copy);
}

/* Behind the others of its key; false: there is no room. */
static bool push_now(struct store *s, struct store_ref *ref) {
    struct store_ref there;
    const struct item *i = ref->item;
    if (__real_store_find(s, i->key, i->key_len, &there) == 0)
        return __real_store_queue_push(s, ref) == 0;
    return __real_store_commit(s, ref, STORE_NEW, NULL) == 0;
}

int __wrap_store_queue_push(struct store *s, struct store_ref *ref) {
    late_do();
    if (mutant == PUSH_LOST && now_and_then()) {
        store_abort(s, ref);
        return 0;
    }
    if (mutant == PUSH_LATE && !pushed.on && now_and_then()) {
        pushed.on = true;
        pushed.ref = *ref;
        return 0;
    }
    int e = __real_store_queue_push(s, ref);
    if (e == 0 && mutant == PUSH_TWICE && now_and_then())
        push_again(s, ref);
    if (e == 0 && pushed.on) {
        pushed.on = false;
        if (!push_now(s, &pushed.ref))
            store_abort(s, &pushed.ref);
    }
    return e;
}

int __wrap_freeze_init(struct manager *m) {
    int e = __real_freeze_init(m);
    if (mutant == FROZEN_ONCE)
        m->shut = false;
    return e;
}

void __wrap_freeze_take(struct manager *m, const struct sup_msg *sup) {
    __real_freeze_take(m, sup);
    if (mutant == FROZEN_OPEN && m->frozen && now_and_then())
        m->shut = false;
}

bool __wrap_store_work(struct store *s) {
    if (late.on && late.turns++ > 0)
        late_do();
    if (again) {
        struct put *p =
            &shared->put[(shared->puts - (mutant == TWICE_NEWEST)) % KEPT]; /* or the oldest */
        again = false;
        value_put(s, p->key, p->key_len, p->value, p->val_len, p->tag);
    }
    return __real_store_work(s);
}

int __wrap_store_leases_add(struct store *s, uint64_t id, const void *map, uint32_t pid) {
    if (mutant == LEASES_UNKNOWN && ++chance % 2 == 0)
        return 0;
    return __real_store_leases_add(s, id, map, pid);
}

int __wrap_flight_send(struct requester *a, const struct msg *req, enum repl_op op, const void *key,
                       uint64_t hash, struct store_ref *ref, uint64_t began, uint64_t most) {
    struct store_ref there;
    if (mutant == COPY_MISSED && (op == REPL_PUT || op == REPL_DEL) &&
        __real_store_find(a->m->store, key, req->key_len, &there) == 0 && now_and_then())
        return 0;
    return __real_flight_send(a, req, op, key, hash, ref, began, most);
}

bool __wrap_flights_commit(struct manager *m) {
    if (mutant == COPY_EARLY)
        for (struct flight *f = m->flights->air; f && f->number; f = f->next)
            f->acked = true;
    return __real_flights_commit(m);
}

void __wrap_results_enter(struct manager *m, uint32_t proxy, uint64_t id, uint64_t version,
                          const struct store_ref *popped) {
    if (mutant != RESULTS_DROPPED)
        __real_results_enter(m, proxy, id, version, popped);
}

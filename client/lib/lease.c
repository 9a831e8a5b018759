/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c - ownership of the chunks of the lease page: a thread that ends leaves its chunks to
 * other threads. Rules L1..L5: lease.h. */
#include "lease.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t no_slots[1] = {LEASE_NONE};
struct lease_thread lease_shadow;
struct lease_thread lease_nobody = {.session_id = UINT64_MAX, .stack = no_slots, .top = no_slots};
__thread struct lease_thread *lease_last_used __attribute__((tls_model("initial-exec"))) =
    &lease_nobody;

static struct lease_counters
    counters_unused[DD_LOCAL_MANAGERS_MAX]; /* for threads without a chunk */
static pthread_key_t end_key;
static pthread_once_t end_once = PTHREAD_ONCE_INIT;

static struct lease_chunk *chunk_at(uint8_t *page, unsigned c) {
    return (struct lease_chunk *)(void *)(page + (uint64_t)c * LEASE_CHUNK_SIZE);
}

static void owner_set(struct session *s, unsigned c, struct lease_thread *t) {
    __atomic_store_n(&s->owner[c], t, __ATOMIC_RELAXED);
}

/* --- ends of threads --- */

static void thread_free(struct lease_thread *t) {
    if (t->stack != no_slots)
        free(t->stack);
    free(t->chunk);
    free(t);
}

static void thread_end(void *list) {
    lease_last_used = &lease_nobody;
    for (struct lease_thread *t = list, *next; t != &lease_nobody; t = next) {
        next = t->next;
        pthread_mutex_lock(&registry_lock);
        struct session *s = sessions;
        while (s && s->id != t->session_id)
            s = s->next;
        if (s) {
            pthread_mutex_lock(&s->lease_lock);
            if (t->scratch)
                __atomic_store_n(t->scratch, 0, __ATOMIC_RELEASE);
            for (unsigned i = 0; i < t->chunks; i++)
                owner_set(s, t->chunk[i], NULL);
            s->orphans += t->chunks;
            pthread_mutex_unlock(&s->lease_lock);
        }
        pthread_mutex_unlock(&registry_lock);
        thread_free(t);
    }
}

static void end_key_make(void) {
    pthread_key_create(&end_key, thread_end);
}

void lease_threads_forget(void) {
    for (struct lease_thread *t = lease_last_used, *next; t != &lease_nobody; t = next) {
        next = t->next;
        thread_free(t);
    }
    lease_last_used = &lease_nobody;
    pthread_once(&end_once, end_key_make);
    pthread_setspecific(end_key, NULL);
}

/* --- chunks --- */

/* Push the free slots of the thread's i-th chunk on its stack, which holds none of them (L1).
 * Returns their number. */
static unsigned chunk_collect(struct lease_thread *t, unsigned i) {
    unsigned c = t->chunk[i], found = 0;
    struct lease_chunk *chunk = chunk_at(t->page, c);
    /* Acquire: a release that was counted is seen as 0 below. One that is not counted yet will only
     * make us look again. */
    __atomic_exchange_n(&t->session->freed[c], 0, __ATOMIC_ACQUIRE);
    /* only the owner writes idle */
    for (unsigned k = DD_LEASE_CHUNK_SLOTS - chunk->idle; k-- > 0;) {
        if (&chunk->slot[k] == t->scratch ||
            __atomic_load_n(&chunk->slot[k], __ATOMIC_ACQUIRE) != 0)
            continue;
        *++t->top = LEASE_NUMBER(c, k);
        found++;
    }
    return found;
}

/* Push slots of the thread's i-th chunk that were idle on its stack; returns their number. */
static unsigned chunk_open(struct lease_thread *t, unsigned i) {
    unsigned c = t->chunk[i];
    struct lease_chunk *chunk = chunk_at(t->page, c);
    /* up to the end of a cache line */
    unsigned was = DD_LEASE_CHUNK_SLOTS - chunk->idle,
             is = 2 * was + 1 < DD_LEASE_CHUNK_SLOTS ? 2 * was + 1 : DD_LEASE_CHUNK_SLOTS;
    /* Stored before any lease in these slots, like `chunks` in chunk_adopt(). */
    __atomic_store_n(&chunk->idle, DD_LEASE_CHUNK_SLOTS - is, __ATOMIC_RELEASE);
    for (unsigned k = is; k-- > was;)
        *++t->top = LEASE_NUMBER(c, k);
    return is - was;
}

static int room_grow(struct lease_thread *t) {
    if (t->chunks < t->room)
        return 0;
    unsigned room = t->room ? 2 * t->room : 4;
    ptrdiff_t used = t->top - t->stack;
    uint32_t *stack = realloc(t->stack != no_slots ? t->stack : NULL,
                              ((size_t)room * DD_LEASE_CHUNK_SLOTS + 1) * sizeof *stack);
    if (!stack)
        return -ENOMEM;
    stack[0] = LEASE_NONE;
    t->stack = stack;
    t->top = stack + used;
    uint32_t *chunk = realloc(t->chunk, room * sizeof *chunk);
    if (!chunk)
        return -ENOMEM;
    t->chunk = chunk;
    t->room = room;
    return 0;
}

/* Add a chunk with at least one free slot: an orphan, else an unused one. */
static int chunk_adopt(struct lease_thread *t) {
    struct session *s = t->session;
    if (room_grow(t) < 0)
        return -ENOMEM;
    pthread_mutex_lock(&s->lease_lock);
    unsigned got = 0;
    for (unsigned c = 0; got == 0 && s->orphans > 0 && c < s->chunks; c++) {
        if (__atomic_load_n(&s->owner[c], __ATOMIC_RELAXED))
            continue;
        t->chunk[t->chunks] = c;
        got = chunk_collect(t, t->chunks);
        if (got == 0)
            got = chunk_open(t, t->chunks);
        if (got == 0)
            continue; /* all its slots are held: it stays an orphan */
        owner_set(s, c, t);
        s->orphans--;
        t->chunks++;
    }
    if (got == 0 && s->chunks < DD_LEASE_CHUNKS) {
        unsigned c = s->chunks++;
        __atomic_store_n(&chunk_at(s->lease_page, c)->idle, DD_LEASE_CHUNK_SLOTS - DD_LEASE_OPEN,
                         __ATOMIC_RELAXED);
        /* Stored before any lease in the chunk: a scan that begins after our fence in reader_find()
         * reads this many chunks. */
        __atomic_store_n(&chunk_at(s->lease_page, 0)->chunks, s->chunks, __ATOMIC_RELEASE);
        owner_set(s, c, t);
        t->chunk[t->chunks++] = c;
        got = chunk_collect(t, t->chunks - 1);
    }
    pthread_mutex_unlock(&s->lease_lock);
    return got > 0
               ? 0
               : dd_error(DDICT_EVIEWS, "this process holds %u views, the most that are possible",
                          DD_LEASE_CHUNKS * DD_LEASE_CHUNK_SLOTS);
}

int lease_refill(struct lease_thread *t) {
    for (unsigned i = 0; i < t->chunks; i++)
        if (__atomic_load_n(&t->session->freed[t->chunk[i]], __ATOMIC_RELAXED) != 0)
            chunk_collect(t, i);
    for (unsigned i = 0; i < t->chunks && *t->top == LEASE_NONE; i++)
        chunk_open(t, i);
    if (*t->top != LEASE_NONE)
        return 0;
    int rc = chunk_adopt(t);
    if (rc == 0 && !t->scratch) {
        t->scratch = lease_slot(t->page, *t->top--);
        t->row = chunk_at(t->page, t->chunk[0])->counters;
        return *t->top != LEASE_NONE ? 0 : lease_refill(t);
    }
    return rc;
}

/* --- threads --- */

static struct lease_thread *thread_make(struct session *s) {
    struct lease_thread *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->session_id = s->id;
    t->session = s;
    t->page = s->lease_page;
    t->status_page = s->status_page;
    t->local_owner = s->local_owner;
    t->owners = s->deal.owners;
    t->row = counters_unused;
    t->stack = t->top = no_slots;
    lease_refill(t); /* if it gets no slot, the thread reads through its lane */
    return t;
}

/* Remove entries of closed sessions. */
static void list_purge(void) {
    for (struct lease_thread **at = &lease_last_used, *t; (t = *at) != &lease_nobody;) {
        if (__atomic_load_n(&t->session->id, __ATOMIC_ACQUIRE) == t->session_id) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        thread_free(t);
    }
}

struct lease_thread *lease_thread_find(struct session *s) {
    struct lease_thread **at = &lease_last_used, *t;
    pthread_once(&end_once, end_key_make);
    list_purge();
    while (*at != &lease_nobody && (*at)->session_id != s->id)
        at = &(*at)->next;
    t = *at;
    if (t != &lease_nobody)
        *at = t->next;
    else
        t = thread_make(s);
    if (!t)
        return NULL;
    t->next = lease_last_used;
    lease_last_used = t;
    pthread_setspecific(end_key, t);
    return t;
}

void lease_release_far(struct session *s, uint32_t n) {
    unsigned c = LEASE_CHUNK_OF(n);
    if (s->lost || lease_is_free(lease_slot(s->lease_page, n)))
        return;    /* L1 */
    if (s->refs) { /* inherited by fork: several processes share the slot */
        if (__atomic_sub_fetch(&s->refs[n], 1, __ATOMIC_ACQ_REL) == 0)
            reader_release(lease_slot(s->lease_page, n));
        __atomic_fetch_sub(&s->inherited, 1, __ATOMIC_RELEASE);
        return;
    }
    /* our slot, in a session that is not the last used one */
    for (struct lease_thread *t = lease_last_used; t != &lease_nobody; t = t->next) {
        if (t == __atomic_load_n(&s->owner[c], __ATOMIC_RELAXED)) {
            lease_return(t, n);
            reader_release(lease_slot(t->page, n));
            return;
        }
    }
    reader_release(lease_slot(s->lease_page, n));
    /* pairs with the exchange in chunk_collect() */
    __atomic_fetch_add(&s->freed[c], 1, __ATOMIC_RELEASE);
}

bool lease_any(struct session *s) {
    if (s->refs)
        return __atomic_load_n(&s->inherited, __ATOMIC_ACQUIRE) != 0;
    for (unsigned c = 0; c < s->chunks; c++) {
        struct lease_chunk *chunk = chunk_at(s->lease_page, c);
        /* Shadows are not waited for: ddictd has the hold page before it learns of our end. */
        for (unsigned k = 0; k < DD_LEASE_CHUNK_SLOTS &&
                             __atomic_load_n(&s->owner[c], __ATOMIC_RELAXED) != &lease_shadow;
             k++)
            if (__atomic_load_n(&chunk->slot[k], __ATOMIC_ACQUIRE) != 0)
                return true;
    }
    return false;
}

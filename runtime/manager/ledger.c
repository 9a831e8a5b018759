/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - requests that wait, in memory that outlives the manager. */
#include "ledger.h"

#include <base/defaults.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(LEDGER_CHUNK * sizeof(struct ledger_entry) % DD_PAGE_MAX == 0 &&
                   LEDGER_HEAD % DD_PAGE_MAX == 0,
               "a chunk is made of pages");
_Static_assert(LEDGER_LARGE ==
                   LEDGER_CHUNK * sizeof(struct ledger_entry) - offsetof(struct ledger_entry, part),
               "a large part takes a chunk");

/* A file, not anonymous memory: the latter is counted as a whole where the kernel promises no more
 * than it has (vm.overcommit_memory=2). */
struct ledger *ledger_map(void) {
    int fd = memfd_create("ddict-ledger", MFD_CLOEXEC);
    void *map = MAP_FAILED;
    if (fd < 0)
        return NULL;
    if (ftruncate(fd, sizeof(struct ledger)) == 0)
        map = mmap(NULL, sizeof(struct ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                   fd, 0);
    int e = errno;
    close(fd);
    errno = e;
    if (map == MAP_FAILED)
        return NULL;
    madvise(map, sizeof(struct ledger), MADV_DONTDUMP); /* it has values */
    return map;
}

static void entry_number(struct ledger_entry *e, uint64_t seq) {
    __atomic_store_n(&e->seq, seq, __ATOMIC_RELEASE);
}

/* --- places --- */
static struct ledger_entry *entry_at(struct ledger *l, uint64_t place) {
    return &l->entry[place - 1];
}

static uint32_t chunks_most(const struct ledger *l) {
    return l->most ? l->most : LEDGER_CHUNKS;
}

/* So many of them are for entries of this client. */
static uint32_t chunks_for(const struct ledger *l, uint64_t client) {
    uint32_t most = chunks_most(l);
    return client == LEDGER_FLIGHT ? most : most - most / LEDGER_SPARE;
}

/* The first chunk that has room, or NULL: none of so many. */
static struct ledger_chunk *chunk_find(struct ledger *l, uint32_t most) {
    while (l->low < most && l->chunk[l->low].used == LEDGER_CHUNK)
        l->low++;
    return l->low < most ? &l->chunk[l->low] : NULL;
}

static uint64_t place_take(struct ledger *l, uint32_t most) {
    struct ledger_chunk *k = chunk_find(l, most);
    if (!k)
        return 0;
    struct ledger_entry *first = &l->entry[(size_t)l->low * LEDGER_CHUNK];
    uint32_t i = k->free ? k->free - 1u : k->top;
    if (k->free) {
        k->free = (uint16_t)first[i].at;
    } else {
        entry_number(&first[i], 0); /* there may be bytes of a large part */
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        k->top++;
    }
    k->used++;
    k->touched = true;
    if (l->reach <= l->low)
        l->reach = l->low + 1;
    return (size_t)l->low * LEDGER_CHUNK + i + 1;
}

/* A whole chunk; 0: none is empty. A next life that finds it large looks at its first entry alone,
 * which is free until the part is whole. */
static uint64_t place_take_large(struct ledger *l) {
    uint32_t most = chunks_most(l) < LEDGER_LARGE_CHUNKS ? chunks_most(l) : LEDGER_LARGE_CHUNKS;
    while (l->empty < most && l->chunk[l->empty].used > 0)
        l->empty++;
    if (l->empty >= most)
        return 0;
    struct ledger_chunk *k = &l->chunk[l->empty];
    uint64_t place = (uint64_t)l->empty * LEDGER_CHUNK + 1;
    entry_number(entry_at(l, place), 0);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    k->large = true;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    k->top = 1;
    k->free = 0;
    k->used = LEDGER_CHUNK;
    k->touched = true;
    if (l->reach <= l->empty)
        l->reach = l->empty + 1;
    return place;
}

static bool is_large(const struct ledger *l, uint64_t place) {
    return l->chunk[(place - 1) / LEDGER_CHUNK].large;
}

/* Into the list of the free ones of its chunk. */
static void place_free(struct ledger *l, uint64_t place) {
    struct ledger_entry *e = entry_at(l, place);
    struct ledger_chunk *k = &l->chunk[(place - 1) / LEDGER_CHUNK];
    entry_number(e, 0);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* free before its place is used */
    e->at = k->free;
    k->free = (uint16_t)((place - 1) % LEDGER_CHUNK + 1);
}

static void chunk_give(struct ledger *l, uint32_t chunk, uint16_t n) {
    struct ledger_chunk *k = &l->chunk[chunk];
    k->used -= n;
    k->large = false;
    if (l->low > chunk)
        l->low = chunk;
    if (k->used == 0 && l->empty > chunk)
        l->empty = chunk;
}

static void place_give(struct ledger *l, uint64_t place) {
    uint32_t chunk = (uint32_t)((place - 1) / LEDGER_CHUNK);
    const struct ledger_chunk *k = &l->chunk[chunk];
    place_free(l, place);
    if (k->lent == 0)
        chunk_give(l, chunk, k->large ? LEDGER_CHUNK : 1);
}

/* A part without its request is of one that was about to come, or about to end. */
static bool is_free(struct ledger *l, const struct ledger_entry *e) {
    return e->seq == 0 ||
           (e->seq & LEDGER_PART && entry_at(l, e->at)->seq != (e->seq & ~LEDGER_PART));
}

static void chunk_open(struct ledger *l, uint32_t chunk) {
    struct ledger_chunk *k = &l->chunk[chunk];
    k->used = k->free = k->lent = 0;
    k->touched = true;
    if (k->large)
        k->top = 1; /* the life before died before it said so */
    for (uint64_t i = k->top; i > 0; i--) {
        uint64_t place = (uint64_t)chunk * LEDGER_CHUNK + i;
        if (is_free(l, entry_at(l, place)))
            place_free(l, place);
        else
            k->used++;
    }
    k->large = k->large && k->used > 0;
    if (k->large)
        k->used = LEDGER_CHUNK;
}

void ledger_open(struct ledger *l) {
    l->low = l->empty = l->reach = l->next = 0;
    for (uint32_t i = 0; i < LEDGER_CHUNKS; i++)
        if (l->chunk[i].top || l->chunk[i].large)
            l->reach = i + 1;
    for (uint32_t i = 0; i < l->reach; i++)
        chunk_open(l, i);
}

/* --- memory --- */
static bool chunk_idle(struct ledger_chunk *k) {
    bool idle = k->top && k->used == 0 && !k->touched;
    k->touched = false;
    return idle;
}

/* It stays where it is if the kernel does not take it: it is zero then, or free. */
static void chunk_drop(struct ledger *l, uint32_t chunk) {
    struct ledger_chunk *k = &l->chunk[chunk];
    k->top = k->free = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* nobody looks at it before its memory goes */
    madvise(&l->entry[(size_t)chunk * LEDGER_CHUNK], LEDGER_CHUNK * sizeof(struct ledger_entry),
            MADV_REMOVE);
}

bool ledger_shrink(struct ledger *l) {
    unsigned n = 0;
    if (l->next < LEDGER_KEPT)
        l->next = LEDGER_KEPT;
    for (; l->next < l->reach && n < LEDGER_STEP; l->next++)
        if (chunk_idle(&l->chunk[l->next])) {
            chunk_drop(l, l->next);
            n++;
        }
    if (l->next < l->reach)
        return true;
    l->next = 0;
    while (l->reach > 0 && l->chunk[l->reach - 1].top == 0)
        l->reach--;
    return false;
}

/* --- requests --- */
/* A key and a value behind it, in pieces. */
struct payload {
    const uint8_t *key, *value;
    uint32_t key_len, len; /* of both */
};

static void payload_copy(const struct payload *p, uint32_t from, uint8_t *to, uint32_t n) {
    uint32_t of_key = from >= p->key_len ? 0 : p->key_len - from < n ? p->key_len - from : n;
    if (of_key)
        memcpy(to, p->key + from, of_key);
    if (n > of_key)
        memcpy(to + of_key, p->value + (from + of_key - p->key_len), n - of_key);
}

static void parts_give(struct ledger *l, uint64_t part) {
    while (part) {
        uint64_t next = entry_at(l, part)->more;
        place_give(l, part);
        part = next;
    }
}

static uint8_t *part_bytes(struct ledger_entry *p) {
    return (uint8_t *)p + offsetof(struct ledger_entry, part);
}

/* Bytes of a payload that the part in this place has, if `left` remain. */
static uint32_t part_length(const struct ledger *l, uint64_t place, uint32_t left) {
    uint32_t room = is_large(l, place) ? LEDGER_LARGE : LEDGER_BYTES;
    return left < room ? left : room;
}

/* What does not fit into the request in place `of`. */
static bool parts_add(struct ledger *l, uint64_t of, const struct payload *bytes, uint32_t most) {
    struct ledger_entry *e = entry_at(l, of);
    uint64_t *more = &e->more;
    *more = 0;
    for (uint32_t done = LEDGER_KEY, n; done < bytes->len; done += n) {
        uint64_t part = bytes->len - done >= LEDGER_LARGE_MIN ? place_take_large(l) : 0;
        if (!part)
            part = place_take(l, most);
        if (!part) {
            parts_give(l, e->more);
            return false;
        }
        struct ledger_entry *p = entry_at(l, part);
        n = part_length(l, part, bytes->len - done);
        payload_copy(bytes, done, part_bytes(p), n);
        p->at = of;
        p->more = 0;
        entry_number(p, LEDGER_PART | (l->seq + 1));
        *more = part;
        more = &p->more;
    }
    return true;
}

struct ledger_entry *ledger_add(struct ledger *l, uint64_t client, uint64_t at, uint64_t deadline,
                                const struct msg *req, const void *key, const void *value,
                                uint32_t n) {
    struct payload bytes = {
        .key = key, .value = value, .key_len = req->key_len, .len = req->key_len + n};
    uint32_t most = chunks_for(l, client);
    uint64_t place = place_take(l, most);
    if (!place)
        return NULL;
    if (!parts_add(l, place, &bytes, most)) {
        place_give(l, place);
        return NULL;
    }
    struct ledger_entry *e = entry_at(l, place);
    e->client = client;
    e->at = at;
    e->deadline = deadline;
    e->value = e->got = e->end = e->id = 0;
    e->to = 0;
    e->bytes = bytes.len;
    e->pass = (struct ledger_pass){0};
    e->req = *req;
    payload_copy(&bytes, 0, e->key, bytes.len < LEDGER_KEY ? bytes.len : LEDGER_KEY);
    entry_number(e, ++l->seq);
    return e;
}

void ledger_end(struct ledger *l, struct ledger_entry *e) {
    uint64_t more = e->more;
    place_give(l, (uint64_t)(e - l->entry) + 1);
    parts_give(l, more);
}

void ledger_id(struct ledger_entry *e, uint32_t to, uint64_t id) {
    e->to = to;
    __atomic_store_n(&e->id, id, __ATOMIC_RELEASE);
}

/* --- values that go on to the lane --- */
static void note_set(uint64_t *field, uint64_t value) {
    __atomic_store_n(field, value, __ATOMIC_RELEASE);
}

void ledger_passes(struct ledger_entry *e, const struct msg *reply) {
    e->pass.version = reply->version;
    e->pass.tag = reply->tag;
    note_set(&e->pass.val_len, reply->val_len);
}

/*
 * What was noted before is published, so `upto` is true as long as CQ ends elsewhere than at the old
 * `pos`. From the first store on `from` says the same, from the second on it counts, and the third
 * changes what does not count until CQ ends elsewhere. So a death between two of them does no harm.
 */
void ledger_note(struct ledger_entry *e, uint64_t pos, uint64_t upto) {
    note_set(&e->pass.from, e->pass.upto);
    note_set(&e->pass.pos, pos);
    note_set(&e->pass.upto, upto);
}

/* Where CQ still ends at the `pos` that is noted (one more, as 0 is none) `from` counts, else `got`.
 * From the first store on both are the same, and the second changes nothing before the third. */
void ledger_rewinds(struct ledger_entry *e, uint64_t pos, uint32_t number) {
    note_set(&e->pass.from, e->got);
    note_set(&e->pass.pos, pos + 1);
    ledger_rewind(e, number, false);
}

void ledger_settle(struct ledger_entry *e, uint64_t pos) {
    if (e->req.type == MSG_PUT && e->pass.pos == pos + 1) {
        note_set(&e->got, e->pass.from);
        note_set(&e->pass.pos, 0); /* a last piece may come before CQ moves on */
    }
    if (e->req.type != MSG_PUT && e->pass.pos == pos)
        note_set(&e->pass.upto, e->pass.from);
}

void ledger_payload(const struct ledger *l, const struct ledger_entry *e, uint8_t *to) {
    uint32_t left = e->bytes, n = left < LEDGER_KEY ? left : LEDGER_KEY;
    memcpy(to, e->key, n);
    for (uint64_t more = e->more; (left -= n) > 0 && more; more = e->more) {
        e = &l->entry[more - 1];
        to += n;
        n = part_length(l, more, left);
        memcpy(to, (const uint8_t *)e + offsetof(struct ledger_entry, part), n);
    }
}

bool ledger_lend(struct ledger *l, const struct ledger_entry *e, struct ledger_lent *lent) {
    uint64_t part = e->more;
    if (!part || !is_large(l, part) || entry_at(l, part)->more)
        return false;
    uint32_t chunk = (uint32_t)((part - 1) / LEDGER_CHUNK);
    struct ledger_chunk *k = &l->chunk[chunk];
    k->number = (uint16_t)chunk;
    k->lent++;
    *lent = (struct ledger_lent){
        .bytes = part_bytes(entry_at(l, part)), .n = e->bytes - LEDGER_KEY, .arg = k};
    return true;
}

void ledger_back(void *arg) {
    struct ledger_chunk *k = arg;
    struct ledger *l = (void *)((char *)(k - k->number) - offsetof(struct ledger, chunk));
    if (--k->lent == 0 && l->entry[(size_t)k->number * LEDGER_CHUNK].seq == 0)
        chunk_give(l, k->number, LEDGER_CHUNK);
}

struct ledger_entry *ledger_next(struct ledger *l, const struct ledger_entry *e) {
    for (size_t i = e ? (size_t)(e - l->entry) + 1 : 0; i < (size_t)l->reach * LEDGER_CHUNK; i++) {
        const struct ledger_chunk *k = &l->chunk[i / LEDGER_CHUNK];
        if (i % LEDGER_CHUNK >= k->top)
            i += LEDGER_CHUNK - 1 - i % LEDGER_CHUNK; /* a read would take memory for the rest */
        else if (l->entry[i].seq && !(l->entry[i].seq & LEDGER_PART))
            return &l->entry[i];
    }
    return NULL;
}

struct ledger_entry *ledger_find(struct ledger *l, uint64_t seq) {
    struct ledger_entry *e = NULL;
    while ((e = ledger_next(l, e)) && e->seq != seq) {
    }
    return e;
}

static int by_number(const void *a, const void *b) {
    const struct ledger_entry *const *x = a, *const *y = b;
    return (*x)->seq < (*y)->seq ? -1 : (*x)->seq > (*y)->seq;
}

struct ledger_entry **ledger_list(struct ledger *l, size_t *n) {
    size_t all = 0;
    for (struct ledger_entry *e = NULL; (e = ledger_next(l, e));)
        all++;
    struct ledger_entry **list = malloc((all + 1) * sizeof(struct ledger_entry *));
    *n = 0;
    for (struct ledger_entry *e = NULL; list && (e = ledger_next(l, e));)
        list[(*n)++] = e;
    if (list)
        qsort(list, *n, sizeof(struct ledger_entry *), by_number);
    return list;
}

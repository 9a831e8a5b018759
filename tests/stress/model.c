/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - what the dictionary may hold; see model.h. */
#include "model.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static struct model_table *t;
static int me = -1;
static uint64_t rng;

uint64_t model_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

uint64_t model_random(void) {
    rng += 0x9E3779B97F4A7C15ull;
    return mix(rng);
}

static struct model_op *op_of(unsigned id, uint64_t n) {
    return &t->key[id].op[n % MODEL_RING];
}

static const char *const kinds[] = {"?", "put", "del", "cleared", "restored"}, *const states[] = {
                                                                                   "pending", "ok",
                                                                                   "failed",
                                                                                   "unknown"};

static void history(unsigned id, char *text, size_t cap) {
    const struct model_key *k = &t->key[id];
    uint64_t begun = k->begun;
    size_t at = (size_t)snprintf(text, cap, " | key %u, begun %llu floor %llu seen %llu:", id,
                                 (unsigned long long)begun, (unsigned long long)k->floor,
                                 (unsigned long long)k->seen);
    for (uint64_t n = begun > 7 ? begun - 7 : 0; n <= begun && at < cap; n++) {
        const struct model_op *o = op_of(id, n);
        at += (size_t)snprintf(text + at, cap - at, " %llu %s %u+%u %s v%llu;",
                               (unsigned long long)n, kinds[o->kind], o->head, o->len,
                               states[o->state], (unsigned long long)o->version);
    }
}

static int wrong(const char *text) {
    uint64_t n = atomic_fetch_add(&t->wrong, 1);
    if (n < MODEL_TEXTS)
        snprintf(t->text[n], sizeof t->text[n], "worker %d (pid %d, life %llu): %s", me,
                 (int)getpid(), me < 0 ? 0ull : (unsigned long long)t->slot[me].life, text);
    fprintf(stderr, "DIFFERENCE worker %d: %s\n", me, text);
    return -1;
}

int model_wrong(const char *format, ...) {
    char text[700];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return wrong(text);
}

int model_say(const char *text) {
    return wrong(text);
}

static int wrong_key(unsigned id, const char *format, ...) {
    char text[700];
    va_list ap;
    va_start(ap, format);
    size_t n = (size_t)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (n < sizeof text)
        history(id, text + n, sizeof text - n);
    return wrong(text);
}

struct model_table *model_open(const char *path, int worker, uint64_t seed) {
    int fd = open(path, O_RDWR | O_CLOEXEC | (worker < 0 ? O_CREAT : 0), 0600);
    if (fd < 0 || (worker < 0 && ftruncate(fd, sizeof *t) < 0)) {
        perror(path);
        exit(2);
    }
    t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (t == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    me = worker;
    if (me < 0) {
        t->seed = seed;
        for (unsigned id = 0; id < MODEL_ALL; id++) {
            op_of(id, 0)->kind = MODEL_DEL;
            op_of(id, 0)->state = MODEL_OK;
        }
        return t;
    }
    struct model_slot *s = &t->slot[me];
    s->pid = (uint64_t)getpid();
    uint64_t life = atomic_fetch_add(&s->life, 1) + 1;
    rng = mix(t->seed ^ mix((uint64_t)me << 32 | life));
    s->beat = model_now();
    for (unsigned i = 0; i < MODEL_KEYS; i++) {
        unsigned id = (unsigned)me * MODEL_KEYS + i;
        struct model_key *k = &t->key[id];
        for (uint64_t n = k->floor + 1; n <= k->begun; n++)
            if (op_of(id, n)->state == MODEL_PENDING) {
                op_of(id, n)->state = MODEL_UNKNOWN;
                k->quarantine = model_now() + MODEL_QUARANTINE_MS * 1000000ull;
            }
    }
    return t;
}

void model_doing(const char *what) {
    struct model_slot *s = &t->slot[me];
    snprintf(s->doing, sizeof s->doing, "%s", what);
    s->beat = model_now();
}

void model_count(const char *what, uint64_t n) {
    for (unsigned i = 0; i < MODEL_COUNTS; i++) {
        if (t->counted[i][0] == 0) /* two may enter the same name: both are summed up by it */
            snprintf(t->counted[i], sizeof t->counted[i], "%s", what);
        if (strcmp(t->counted[i], what) == 0) {
            atomic_fetch_add_explicit(&t->slot[me].count[i], n, memory_order_relaxed);
            return;
        }
    }
}

uint64_t model_phase(void) {
    t->slot[me].beat = model_now();
    return t->phase;
}

uint64_t model_round(void) {
    return t->round;
}

void model_reached(uint64_t phase, uint64_t round) {
    struct model_slot *s = &t->slot[me];
    if (phase == MODEL_SETTLE)
        s->settled = round;
    else if (phase == MODEL_AUDIT)
        s->audited = round;
    else
        s->ended = s->life;
}

void model_killed(int worker) {
    uint32_t q = atomic_exchange(&t->slot[worker].popping, 0);
    if (q != 0)
        t->queue[q - 1].may_lose++;
}

size_t model_name(unsigned id, void *key) {
    int n = sprintf(key, "bm%u/%03u", id / MODEL_KEYS, id % MODEL_KEYS);
    size_t len = (size_t)n, want = id % 16 == 7 ? 1000 : id % 64 == 33 ? 60000 : len;
    memset((char *)key + len, 'x', want - len);
    return want;
}

int model_id(const void *key, size_t len) {
    static char whole[MODEL_KEY_MAX];
    char head[8];
    unsigned w, i;
    if (len < 7)
        return -1;
    memcpy(head, key, 7);
    head[7] = 0;
    if (sscanf(head, "bm%1u/%3u", &w, &i) != 2 || w >= MODEL_WORKERS || i >= MODEL_KEYS)
        return -1;
    size_t n = model_name(w * MODEL_KEYS + i, whole);
    return n == len && memcmp(whole, key, n) == 0 ? (int)(w * MODEL_KEYS + i) : -1;
}

static size_t some_len(void) {
    uint64_t r = model_random(), k = model_random();
    switch (r % 16) {
    case 0:
        return k % 17;
    case 1:
    case 2:
    case 3:
        return k % 256;
    case 4:
    case 5:
    case 6:
        return k % 8193;
    case 7:
    case 8:
    case 9:
        return k % (64 << 10);
    case 10:
    case 11:
        return k % (300 << 10);
    case 12:
        return 1 << (k % 22);
    case 13:
    case 14:
        return k % (1 << 20);
    default:
        return k % (MODEL_VALUE_MAX + 1);
    }
}

size_t model_len(unsigned id, unsigned part) {
    uint64_t begun = t->key[id].begun;
    for (;;) {
        size_t len = some_len() / part;
        bool other = true;
        for (uint64_t n = begun > 12 ? begun - 12 : 0; n <= begun; n++)
            other &= op_of(id, n)->len != len || op_of(id, n)->kind != MODEL_PUT;
        if (other)
            return len;
    }
}

static uint64_t word_of(uint64_t seed, uint64_t i) {
    uint64_t w = (seed + i) * 0x9E3779B97F4A7C15ull;
    return w ^ w >> 29;
}

static uint64_t seed_of(uint64_t id, uint64_t content) {
    return mix(t->seed + mix(id << 40 ^ content));
}

/* The first two words of a value that has room for them say what it is. */
#define WORDS_BEFORE(id, content, len) \
    { (content), (id) << 32 | (len) }

__attribute__((no_sanitize("address", "undefined"))) void model_fill(void *val, uint64_t id,
                                                                     uint64_t content, size_t len) {
    uint64_t seed = seed_of(id, content), before[2] = WORDS_BEFORE(id, content, len), i = 0;
    char *p = val;
    if (len >= 16) {
        memcpy(p, before, 16);
        i = 2;
    }
    for (; i < len / 8; i++) {
        uint64_t w = word_of(seed, i);
        __builtin_memcpy(p + 8 * i, &w, 8);
    }
    uint64_t w = word_of(seed, i);
    memcpy(p + 8 * i, &w, len % 8);
}

__attribute__((no_sanitize("address", "undefined"))) bool model_same(const void *val, uint64_t id,
                                                                     uint64_t content, size_t len) {
    uint64_t seed = seed_of(id, content), before[2] = WORDS_BEFORE(id, content, len), i = 0,
             other = 0;
    const char *p = val;
    if (len >= 16) {
        if (memcmp(p, before, 16) != 0)
            return false;
        i = 2;
    }
    for (; i < len / 8; i++) {
        uint64_t w;
        __builtin_memcpy(&w, p + 8 * i, 8);
        other |= w ^ word_of(seed, i);
    }
    uint64_t w = word_of(seed, i);
    if (me >= 0)
        atomic_fetch_add_explicit(&t->slot[me].bytes, len, memory_order_relaxed);
    return other == 0 && memcmp(p + 8 * i, &w, len % 8) == 0;
}

/* --- the owner --- */

bool model_free(unsigned id) {
    return t->key[id].quarantine == 0 && op_of(id, t->key[id].begun)->state != MODEL_PENDING;
}

static bool is_put(uint32_t kind) {
    return kind == MODEL_PUT || kind == MODEL_RESTORED;
}

bool model_there(unsigned id) {
    return is_put(op_of(id, t->key[id].floor)->kind);
}

static uint64_t enter(unsigned id, uint32_t kind, uint64_t content, size_t len, uint32_t head,
                      uint32_t state) {
    struct model_key *k = &t->key[id];
    uint64_t n = k->begun + 1;
    struct model_op *o = op_of(id, n);
    o->state = state;
    o->kind = kind;
    o->len = (uint32_t)len;
    o->head = head;
    o->content = content != 0 ? content : n;
    o->version = 0;
    k->begun = n;
    return n;
}

uint64_t model_begin(unsigned id, uint32_t kind, size_t len, uint32_t head) {
    return enter(id, kind, 0, len, head, MODEL_PENDING);
}

int model_end(unsigned id, uint64_t n, uint32_t state) {
    struct model_key *k = &t->key[id];
    op_of(id, n)->state = state;
    if (state == MODEL_OK) {
        k->floor = n;
        k->quarantine = 0;
    } else if (state == MODEL_UNKNOWN) {
        k->quarantine = model_now() + MODEL_QUARANTINE_MS * 1000000ull;
    } else if (k->seen >= n) {
        return wrong_key(id, "operation %llu failed and was seen all the same",
                         (unsigned long long)n);
    }
    return 0;
}

bool model_due(unsigned id) {
    return t->key[id].quarantine != 0 && model_now() > t->key[id].quarantine;
}

uint64_t model_settle_left(void) {
    uint64_t n = 0;
    for (unsigned i = 0; i < MODEL_KEYS; i++)
        n += !model_free((unsigned)me * MODEL_KEYS + i);
    return n;
}

/* The bytes are those of the operation. */
static bool is_of(unsigned id, const struct model_op *o, const void *val, size_t len,
                  unsigned tag) {
    if (!is_put(o->kind) || o->head + (size_t)o->len != len || (tag == 7) != (o->head != 0))
        return false;
    return model_same((const char *)val + o->head, id, o->content, o->len);
}

int model_settled(unsigned id, const void *val, size_t len, unsigned tag) {
    struct model_key *k = &t->key[id];
    uint64_t n = k->begun, floor = k->floor;
    for (;; n--) {
        struct model_op *o = op_of(id, n);
        bool may = n == floor || o->state == MODEL_UNKNOWN;
        if (may && (!val ? !is_put(o->kind) : is_of(id, o, val, len, tag)))
            break;
        if (n == floor)
            return wrong_key(id, "settled: %s of %zu bytes, tag %u, is none that could be",
                             !val ? "absence" : "a value", len, tag);
    }
    if (n < k->seen)
        return wrong_key(id, "settled: it is operation %llu, which is older than what was seen",
                         (unsigned long long)n);
    for (uint64_t later = n + 1; later <= k->begun; later++)
        op_of(id, later)->state = MODEL_FAILED;
    if (val && n != floor)
        op_of(id, n)->state = MODEL_OK;
    k->floor = n;
    k->quarantine = 0;
    return 0;
}

/* --- readers --- */

uint64_t model_look(unsigned id) {
    uint64_t floor = t->key[id].floor, seen = t->key[id].seen;
    return floor > seen ? floor : seen;
}

static void was_seen(struct model_key *k, uint64_t n) {
    uint64_t was = k->seen;
    while (was < n && !atomic_compare_exchange_weak(&k->seen, &was, n))
        ;
}

static int version_is(unsigned id, uint64_t n, uint64_t version, const char *how) {
    struct model_op *o = op_of(id, n);
    uint64_t known = 0;
    if (!atomic_compare_exchange_strong(&o->version, &known, version) && known != version)
        return wrong_key(id, "%s: operation %llu has version %llu, and had %llu", how,
                         (unsigned long long)n, (unsigned long long)version,
                         (unsigned long long)known);
    for (uint64_t before = n > 0 ? n - 1 : 0; before > 0 && n - before < 32; before--)
        if (op_of(id, before)->version != 0 && op_of(id, before)->version >= version)
            return wrong_key(id, "%s: operation %llu has version %llu, which an older one had", how,
                             (unsigned long long)n, (unsigned long long)version);
    return 0;
}

int model_seen(unsigned id, uint64_t look, const void *val, size_t len, unsigned tag,
               uint64_t version, uint64_t *content, const char *how) {
    struct model_key *k = &t->key[id];
    uint64_t begun = k->begun;
    if (begun - look > MODEL_RING - 64)
        return 0; /* what it began with is forgotten */
    for (uint64_t n = look; n <= begun; n++) {
        const struct model_op *o = op_of(id, n);
        if (n != look && o->state == MODEL_FAILED)
            continue;
        if (!val ? is_put(o->kind) : !is_of(id, o, val, len, tag))
            continue;
        was_seen(k, n);
        if (content)
            *content = o->content;
        return val && version != 0 && o->len >= 16 ? version_is(id, n, version, how) : 0;
    }
    if (!val)
        return wrong_key(id, "%s: absent, which it can not be from operation %llu on", how,
                         (unsigned long long)look);
    uint64_t words[2] = {0, 0};
    memcpy(words, (const char *)val + (tag == 7 && len >= 64 ? 64 : 0),
           len - (tag == 7 && len >= 64 ? 64 : 0) < 16 ? len - (tag == 7 && len >= 64 ? 64 : 0)
                                                       : 16);
    return wrong_key(id,
                     "%s: %zu bytes, tag %u, version %llu, which say that they are of operation "
                     "%llu of key %llu with %llu bytes, %s; it may be from operation %llu to %llu",
                     how, len, tag, (unsigned long long)version, (unsigned long long)words[0],
                     (unsigned long long)(words[1] >> 32),
                     (unsigned long long)(words[1] & 0xffffffffu),
                     len >= 16 && words[1] >> 32 == id && (words[1] & 0xffffffffu) == len &&
                             model_same(val, id, words[0], len)
                         ? "whole"
                         : "NOT whole",
                     (unsigned long long)look, (unsigned long long)begun);
}

int model_seen_len(unsigned id, uint64_t look, bool there, size_t len, const char *how) {
    uint64_t begun = t->key[id].begun;
    if (begun - look > MODEL_RING - 64)
        return 0;
    for (uint64_t n = look; n <= begun; n++) {
        const struct model_op *o = op_of(id, n);
        if ((n == look || o->state != MODEL_FAILED) && there == is_put(o->kind) &&
            (!there || o->head + (size_t)o->len == len)) {
            was_seen(&t->key[id], n);
            return 0;
        }
    }
    return wrong_key(id, "%s: %s, %zu bytes; it may be from operation %llu to %llu", how,
                     there ? "there" : "absent", len, (unsigned long long)look,
                     (unsigned long long)begun);
}

/* --- listing --- */

static uint64_t list_floor[MODEL_ALL];
static uint32_t list_times[MODEL_ALL];

void model_list(void) {
    for (unsigned id = 0; id < MODEL_ALL; id++) {
        uint64_t floor = t->key[id].floor;
        list_floor[id] =
            t->key[id].quarantine == 0 && t->key[id].begun == floor ? floor : UINT64_MAX;
        list_times[id] = 0;
    }
}

void model_listed(int id) {
    if (id >= 0)
        list_times[id]++;
}

int model_list_end(int worker, const uint8_t *of, const char *how) {
    for (unsigned id = 0; id < MODEL_ALL; id++) {
        if (list_floor[id] == UINT64_MAX || t->key[id].begun != list_floor[id])
            continue;
        bool asked = (worker < 0 || id / MODEL_KEYS == (unsigned)worker) && (!of || of[id]);
        uint32_t want = asked && is_put(op_of(id, list_floor[id])->kind);
        if (list_times[id] != want)
            return wrong_key(id, "%s: the key came %u times instead of %u", how, list_times[id],
                             want);
    }
    return 0;
}

uint64_t model_present(void) {
    uint64_t n = 0;
    for (unsigned id = 0; id < MODEL_ALL; id++)
        n += model_there(id);
    return n;
}

/* --- events --- */

static uint64_t told[MODEL_ALL], owed_from[MODEL_ALL];
/* Removals are all alike, and so are short values: an event that was taken for one from before the
 * subscription may have been a later one. So many of each key. */
static unsigned doubtful[MODEL_ALL];
static bool sub_on, sub_dels;

void model_sub_before(void) {
    sub_on = false;
    for (unsigned id = 0; id < MODEL_ALL; id++)
        told[id] = t->key[id].floor;
    memset(doubtful, 0, sizeof doubtful);
}

void model_sub_after(bool dels) {
    sub_on = true;
    sub_dels = dels;
    for (unsigned id = 0; id < MODEL_ALL; id++)
        owed_from[id] = t->key[id].begun;
}

static bool owed(unsigned id, uint64_t n) {
    const struct model_op *o = op_of(id, n);
    return n > owed_from[id] && o->state == MODEL_OK &&
           (o->kind == MODEL_PUT || (o->kind == MODEL_DEL && sub_dels));
}

int model_event(int kind, const void *key, size_t klen, const void *val, size_t vlen, size_t len,
                unsigned tag, uint64_t version) {
    int id = model_id(key, klen);
    if (id < 0)
        return model_wrong("event %d of a key that nobody has: %.*s", kind,
                           klen > 40 ? 40 : (int)klen, (const char *)key);
    struct model_key *k = &t->key[id];
    uint64_t begun = k->begun;
    if (begun - told[id] > MODEL_RING - 64) { /* forgotten */
        told[id] = begun;
        return 0;
    }
    /* which is entered before it is done */
    bool again = version == 0 || op_of((unsigned)id, told[id])->kind == MODEL_RESTORED;
    for (uint64_t n = told[id] + !(kind == 1 && again); n <= begun; n++) {
        const struct model_op *o = op_of((unsigned)id, n);
        bool like = kind == 1 ? is_put(o->kind) && (version == 0 || o->head + (size_t)o->len == len)
                              : o->kind == MODEL_DEL;
        if (like && kind == 1 && val)
            like = is_of((unsigned)id, o, val, vlen, tag);
        if (like && version != 0 && o->version != 0 && o->version != version)
            like = false;
        /* the same bytes again: this one may have been before the subscription */
        for (uint64_t later = n + 1; like && later <= begun; later++)
            if (op_of((unsigned)id, later)->kind == MODEL_RESTORED &&
                op_of((unsigned)id, later)->content == o->content && n <= owed_from[id])
                n = later, o = op_of((unsigned)id, n);
        if (like && o->state != MODEL_FAILED) {
            if (version != 0 || kind == 2)
                told[id] = n;
            bool known =
                kind == 1 && ((version != 0 && o->version == version) || (val && o->len >= 16));
            doubtful[id] += n <= owed_from[id] && !known;
            return val && version != 0 && o->len >= 16
                       ? version_is((unsigned)id, n, version, "event")
                       : 0;
        }
        if (version == 0 || n <= told[id] || !owed((unsigned)id, n))
            continue;
        if (doubtful[id] > 0)
            doubtful[id]--;
        else
            return wrong_key((unsigned)id,
                             "event %d of %zu bytes, version %llu: operation %llu was not told of "
                             "(told up to %llu)",
                             kind, len, (unsigned long long)version, (unsigned long long)n,
                             (unsigned long long)told[id]);
    }
    return wrong_key((unsigned)id,
                     "event %d of %zu bytes, version %llu: no operation after %llu is like it",
                     kind, len, (unsigned long long)version, (unsigned long long)told[id]);
}

uint64_t model_sub_owed(char *text, size_t cap) {
    uint64_t sum = 0;
    if (!sub_on)
        return 0;
    for (unsigned id = 0; id < MODEL_ALL; id++)
        for (uint64_t n = told[id] + 1; n <= t->key[id].begun; n++)
            if (owed(id, n) && doubtful[id] == 0 && sum++ == 0) {
                size_t at = (size_t)snprintf(text, cap, "operation %llu of key %u was not told of",
                                             (unsigned long long)n, id);
                if (at < cap)
                    history(id, text + at, cap - at);
            }
    return sum;
}

/* --- queues --- */

/* the last one popped here of each pusher */
static uint64_t last_of[MODEL_QUEUES][MODEL_WORKERS];

size_t model_queue_name(unsigned q, void *key) {
    static const char parts[2][16] = {"sddict.Queue", "sq"};
    char *p = key, second[32];
    *p++ = 't';
    for (unsigned i = 0; i < 2; i++) {
        snprintf(second, sizeof second, i == 0 ? "%s" : "%s%u", parts[i], q); /* "q0" */
        uint32_t n = (uint32_t)strlen(second);
        memcpy(p, &n, 4);
        memcpy(p + 4, second, n);
        p += 4 + n;
    }
    return (size_t)(p - (char *)key);
}

static size_t element_len(unsigned q, uint64_t e) {
    uint64_t r = mix(e * 8 + q);
    return 16 + (q == 2 && r % 8 == 0 ? r / 8 % (200 << 10) : r / 8 % 2000);
}

uint64_t model_push(unsigned q, size_t *len) {
    uint64_t e = atomic_fetch_add(&t->queue[q].next, 1) + 1;
    if (e >= MODEL_ELEMENTS)
        return 0;
    *len = element_len(q, e);
    t->queue[q].element[e] = MODEL_PUSH | MODEL_PUSHER * (uint32_t)me;
    return e;
}

void model_pushed(unsigned q, uint64_t e, uint32_t state) {
    if (state == MODEL_OK)
        atomic_fetch_or(&t->queue[q].element[e], MODEL_PUSHED);
    else if (state == MODEL_FAILED &&
             atomic_fetch_or(&t->queue[q].element[e], MODEL_REFUSED) & MODEL_POPPED)
        model_wrong("queue %u: element %llu was refused and popped", q, (unsigned long long)e);
}

void model_pop(unsigned q) {
    t->slot[me].popping = q + 1;
}

int model_popped(unsigned q, const void *val, size_t len, bool unknown) {
    int rc = 0;
    struct model_queue *x = &t->queue[q];
    if (unknown)
        x->may_lose++;
    if (val) {
        uint64_t e = 0;
        memcpy(&e, val, len < 8 ? len : 8);
        if (e == 0 || e > x->next || e >= MODEL_ELEMENTS || element_len(q, e) != len ||
            !model_same(val, 1000 + q, e, len)) {
            rc = model_wrong("queue %u: popped %zu bytes that nobody pushed (element %llu)", q, len,
                             (unsigned long long)e);
        } else {
            uint32_t was = atomic_fetch_or(&x->element[e], MODEL_POPPED), by = was / MODEL_PUSHER;
            if (was & (MODEL_POPPED | MODEL_REFUSED) || !(was & MODEL_PUSH))
                rc = model_wrong("queue %u: element %llu of worker %u was popped %s", q,
                                 (unsigned long long)e, by,
                                 was & MODEL_POPPED    ? "twice"
                                 : was & MODEL_REFUSED ? "after it was refused"
                                                       : "and not pushed");
            else if (was & MODEL_PUSHED && last_of[q][by] > e)
                rc = model_wrong("queue %u: element %llu of worker %u came after its %llu", q,
                                 (unsigned long long)e, by, (unsigned long long)last_of[q][by]);
            if (was & MODEL_PUSHED)
                last_of[q][by] = e;
        }
    }
    t->slot[me].popping = 0;
    return rc;
}

int model_queue_audit(unsigned q) {
    struct model_queue *x = &t->queue[q];
    uint64_t end = x->next < MODEL_ELEMENTS ? x->next : MODEL_ELEMENTS - 1, first = 0;
    for (uint64_t e = x->scanned + 1; e <= end; e++)
        if ((x->element[e] & (MODEL_PUSHED | MODEL_POPPED)) == MODEL_PUSHED) {
            first = e;
            x->lost++;
        }
    x->scanned = end;
    if (x->lost > x->may_lose)
        return model_wrong("queue %u: %llu elements are lost, and only %llu pops have an unknown "
                           "end; one is element %llu of worker %u",
                           q, (unsigned long long)x->lost, (unsigned long long)x->may_lose,
                           (unsigned long long)first, x->element[first] / MODEL_PUSHER);
    return 0;
}

void model_all(uint32_t kind) {
    for (unsigned id = 0; id < MODEL_ALL; id++) {
        const struct model_op *o = op_of(id, t->key[id].floor);
        if (!is_put(o->kind))
            continue;
        t->key[id].floor = enter(id, MODEL_CLEARED, o->content, o->len, o->head, MODEL_OK);
        if (kind == MODEL_RESTORED)
            t->key[id].floor = enter(id, kind, o->content, o->len, o->head, MODEL_OK);
    }
}

/* --- who watches --- */

uint64_t model_figure(const char *what, int worker) {
    uint64_t sum = 0;
    for (int w = 0; w < MODEL_WORKERS; w++) {
        const struct model_slot *s = &t->slot[w];
        if (worker >= 0 && w != worker)
            continue;
        sum += strcmp(what, "pid") == 0       ? s->pid
               : strcmp(what, "life") == 0    ? s->life
               : strcmp(what, "beat") == 0    ? s->beat
               : strcmp(what, "settled") == 0 ? s->settled
               : strcmp(what, "audited") == 0 ? s->audited
               : strcmp(what, "ended") == 0   ? s->ended
               : strcmp(what, "bytes") == 0   ? s->bytes
                                              : 0;
    }
    for (unsigned q = 0; q < MODEL_QUEUES; q++)
        sum += strcmp(what, "lost") == 0       ? t->queue[q].lost
               : strcmp(what, "may_lose") == 0 ? t->queue[q].may_lose
               : strcmp(what, "elements") == 0 ? t->queue[q].next
                                               : 0;
    if (strcmp(what, "operations") == 0)
        for (unsigned id = 0; id < MODEL_ALL; id++)
            sum += t->key[id].begun;
    return strcmp(what, "wrong") == 0 ? t->wrong : sum;
}

const char *model_text(unsigned i, bool doing) {
    return doing ? t->slot[i].doing : t->text[i];
}

const char *model_counted(unsigned i, uint64_t *sum) {
    if (i >= MODEL_COUNTS || t->counted[i][0] == 0)
        return NULL;
    *sum = 0;
    for (unsigned w = 0; w < MODEL_WORKERS; w++)
        *sum += t->slot[w].count[i];
    return t->counted[i];
}

void model_phase_set(uint64_t phase, uint64_t round) {
    t->round = round;
    t->phase = phase;
}

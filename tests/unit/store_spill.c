/* SPDX-License-Identifier: Apache-2.0 */
/* store_spill.c - a file behind the memory: the same keys and values whichever of the two they lie
 * in, also after a crash; and what is said when it has no room. */
#include "store_test.h"
#include <store/budget.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* The file system, as far as it can be made to have no more space. */
static int64_t space = INT64_MAX; /* bytes that may still be asked for */
static int no_space = ENOSPC;
int fallocate(int fd, int mode, off_t off, off_t len) {
    if (len > space) {
        errno = no_space;
        return -1;
    }
    space -= len;
    return (int)syscall(SYS_fallocate, fd, mode, off, len);
}

/* The disk, as slow and as broken as is wanted; and who has waited for it. */
static pthread_t loop;
static unsigned by_loop; /* calls of the thread that has the store */
static int gate;         /* atomic; 1: what was written does not reach the disk yet */
static int sync_fails;
static void disk_asked(void) {
    by_loop += pthread_equal(pthread_self(), loop) != 0;
}
int fdatasync(int fd) {
    disk_asked();
    while (__atomic_load_n(&gate, __ATOMIC_ACQUIRE))
        poll(NULL, 0, 1);
    if (sync_fails) {
        errno = sync_fails;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}
ssize_t pwrite(int fd, const void *from, size_t n, off_t at) {
    if (fd == box.spill)
        disk_asked();
    return (ssize_t)syscall(SYS_pwrite64, fd, from, n, at);
}
ssize_t pread(int fd, void *to, size_t n, off_t at) {
    if (fd == box.spill)
        disk_asked();
    return (ssize_t)syscall(SYS_pread64, fd, to, n, at);
}

/* For loops: libcheck writes to a file for each of its assertions. */
#define MUST(e)                                      \
    do {                                             \
        if (!(e))                                    \
            ck_abort_msg("%s: %s", #e, dd_errmsg()); \
    } while (0)

static void before(void) {
    space = INT64_MAX;
    no_space = ENOSPC;
    gate = sync_fails = 0;
    box_open_spill(4 * MIB, 64 * MIB);
}
static int wake; /* of the threads, when it is served by them */
static void after(void) {
    box_close();
    if (wake)
        close(wake);
    wake = 0;
}

static bool spilled(uint64_t k) {
    struct found f;
    MUST(look_slot(k, 0, &f) == 0);
    reader_release(&box.page->slot[0]);
    return f.away != NULL;
}

START_TEST(values_beyond_memory_are_in_the_spill) {
    uint64_t n = 0, there = 0;
    for (; n < 600; n++)
        MUST(put(n, n % 3 ? 100 * n : 20 * n, n) == 0); /* 15 MiB */
    for (uint64_t k = 0; k < n; k++) {
        MUST(seen(k, k % 3 ? 100 * k : 20 * k, k) == 1);
        there += spilled(k);
    }
    struct manager_stats s = stats();
    ck_assert_uint_eq(keys_count(), n);
    ck_assert_uint_eq(s.num_keys, n);
    ck_assert_uint_le(s.total_used_bytes, 4 * MIB);
    ck_assert_uint_eq(s.spill_total_bytes, 64 * MIB);
    ck_assert_uint_eq(s.spill_items, there);
    ck_assert_uint_gt(there, 200);
    ck_assert_uint_gt(s.spill_used_bytes, 9 * MIB);
    ck_assert_uint_ge(s.spilled_bytes, s.spill_used_bytes);
    ck_assert_uint_lt(there, n); /* memory first */
    for (uint64_t k = 0; k < n; k++)
        MUST(del(k) == 0);
    s = stats();
    ck_assert_uint_eq(s.spill_used_bytes + s.spill_items, 0);
    ck_assert_uint_eq(s.total_used_bytes, budget_fixed(box.s));
    store_work(box.s);                      /* of a turn that has time to look at it */
    ck_assert_int_eq(put(1, 100000, 5), 0); /* and memory first again */
    ck_assert(!spilled(1));
}
END_TEST

START_TEST(one_value_may_be_larger_than_memory) {
    ck_assert_int_eq(put(1, 40 * MIB, 1), 0);
    ck_assert_int_eq(seen(1, 40 * MIB, 1), 1);
    ck_assert_int_eq(put(2, 64 * MIB, 1), DDICT_EVALSIZE);
    ck_assert_int_eq(put(2, 40 * MIB, 1), DDICT_EFULL);
    ck_assert_int_eq(put(1, 30 * MIB, 2), DDICT_EFULL); /* beside the one that it replaces */
    ck_assert_int_eq(seen(1, 40 * MIB, 1), 1);
}
END_TEST

/* What holds is what the model holds, whatever came and went, also over crashes. */
#define KEYS 1500u
static struct {
    uint32_t len;
    uint64_t seed;
    bool there;
} model[KEYS];
static uint32_t some_length(uint64_t *rng) {
    uint64_t r = unit_random(rng);
    return (uint32_t)(r % 8 == 0 ? r >> 8 & 0x1ffff : r % 8 < 4 ? r >> 8 & 0x1fff : r >> 8 & 0xff);
}
static void model_compare(void) {
    uint64_t n = 0;
    for (uint64_t k = 0; k < KEYS; k++) {
        n += model[k].there;
        MUST(seen(k, model[k].len, model[k].seed) == model[k].there);
    }
    ck_assert_uint_eq(keys_count(), n);
    ck_assert_uint_eq(stats().num_keys, n);
}

START_TEST(it_is_the_model_whatever_comes_and_goes) {
    uint64_t rng = 42, refused = 0;
    memset(model, 0, sizeof model);
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 2500; i++) {
            uint64_t k = unit_random(&rng) % KEYS, seed = unit_random(&rng);
            if (seed % 4 == 0) {
                MUST(del(k) == (model[k].there ? 0 : DDICT_ENOKEY));
                model[k].there = false;
                continue;
            }
            uint32_t len = some_length(&rng);
            int rc = put(k, len, seed);
            MUST(rc == 0 || rc == DDICT_EFULL);
            refused += rc < 0;
            if (rc < 0)
                continue;
            model[k].there = true;
            model[k].len = len;
            model[k].seed = seed;
        }
        model_compare();
        struct manager_stats was = stats();
        ck_assert_uint_gt(was.spill_items, 0);
        if (round % 3 != 2)
            continue;
        box_reopen();
        struct manager_stats is = stats();
        ck_assert_uint_eq(is.spill_used_bytes, was.spill_used_bytes);
        ck_assert_uint_eq(is.spill_items, was.spill_items);
        ck_assert_uint_eq(is.total_used_bytes, was.total_used_bytes);
        model_compare();
    }
    ck_assert_uint_eq(refused, 0);
    ck_assert_int_eq(store_clear(box.s), 0);
    while (store_work(box.s)) {
    }
    ck_assert_uint_eq(stats().spill_used_bytes, 0);
    ck_assert_uint_eq(keys_count(), 0);
}
END_TEST

/* A client may name any block, in a lease and in its answers. The bytes there are a value's. */
START_TEST(no_block_there_is_taken_for_an_item) {
    struct found f;
    for (uint64_t k = 0; k < 100; k++)
        MUST(put(k, 100000, k) == 0);
    ck_assert_int_eq(look_slot(5, 5, &f), 0);
    uint64_t away = item_away(f.item)->off;
    ck_assert_int_eq(del(5), 0); /* the lease alone keeps it */
    box.page->slot[6] = LEASE_WORD(7, away);
    box_reopen();
    ck_assert_int_eq(store_keep(box.s, away), DDICT_EPROTO);
    ck_assert_int_eq(store_keep_reserved(box.s, away), DDICT_EPROTO);
    uint64_t used = stats().spill_used_bytes;
    store_work(box.s);
    box.page->slot[6] = 0;
    for (uint64_t k = 100; k < 800; k++)
        if (put(k, 100000, k) < 0)
            break;
    ck_assert_uint_gt(stats().spill_used_bytes, used);
    ck_assert(value_right(f.value, 100000, 5));
    reader_release(&box.page->slot[5]);
}
END_TEST

START_TEST(what_is_read_there_stays_until_it_is_let_go_of) {
    struct found f;
    for (uint64_t k = 0; k < 100; k++)
        MUST(put(k, 100000, k) == 0);
    ck_assert(spilled(5));
    ck_assert_int_eq(look_slot(5, 5, &f), 0);
    uint64_t used = stats().spill_used_bytes;
    ck_assert_int_eq(del(5), 0);
    ck_assert_uint_eq(stats().spill_used_bytes, used);
    box_reopen();
    for (uint64_t k = 100; k < 800; k++)
        if (put(k, 100000, k) < 0)
            break;
    ck_assert(value_right(f.value, 100000, 5));
    reader_release(&box.page->slot[5]);
    ck_assert_uint_eq(stats().leased_bytes, 0);
}
END_TEST

START_TEST(full_is_when_both_are_full_and_nothing_is_lost) {
    uint64_t n = 0, more = 0;
    char dir[4096];
    while (put(n, 50000, n) == 0)
        n++;
    ck_assert_uint_gt(n, 1150);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "of memory and"));
    if (getcwd(dir, sizeof dir) && !strstr(dd_errmsg(), "memfd"))
        ck_assert_ptr_nonnull(strstr(dd_errmsg(), dir));
    for (uint64_t k = 0; k < n; k++)
        MUST(seen(k, 50000, k) == 1);
    for (uint64_t k = 0; k < n; k += 2)
        MUST(del(k) == 0);
    while (put(n + more, 50000, more) == 0)
        more++;
    ck_assert_uint_ge(more, n / 2 - 2);
}
END_TEST

/* Large values have filled memory when small keys want index. */
START_TEST(values_make_room_for_the_index) {
    struct found f;
    for (uint64_t k = 0; k < 60; k++)
        MUST(put(k, 60000, k) == 0);
    ck_assert_int_eq(look_slot(3, 4, &f), 0);
    ck_assert_uint_lt(f.off, box.s->header->file_size);
    for (uint64_t k = 1000; k < 37000; k++)
        MUST(put(k, 8, k) == 0); /* 0.8 MiB of index */
    ck_assert_uint_gt(box.s->header->segments * DD_SEGMENT_SIZE, MIB / 2);
    ck_assert(value_right(f.value, 60000, 3)); /* where it was: it is held */
    reader_release(&box.page->slot[4]);
    for (uint64_t k = 0; k < 60; k++)
        MUST(seen(k, 60000, k) == 1);
    for (uint64_t k = 1000; k < 37000; k++)
        MUST(seen(k, 8, k) == 1);
    uint64_t moved = 0;
    for (uint64_t k = 0; k < 30; k++)
        moved += spilled(k);
    ck_assert_uint_gt(moved, 0);
    ck_assert_uint_le(budget_resident(box.s), 4 * MIB);
    box_reopen();
    for (uint64_t k = 0; k < 60; k++)
        MUST(seen(k, 60000, k) == 1);
    ck_assert_uint_eq(keys_count(), 36060);
}
END_TEST

START_TEST(values_of_other_managers_are_never_there) {
    struct store_ref ref;
    for (uint64_t k = 0; k < 100; k++)
        MUST(put(k, 100000, k) == 0);
    uint64_t used = stats().spill_used_bytes;
    ck_assert_int_eq(store_reserve_transit(box.s, 3 * MIB, 0, 1, &ref), DDICT_EFULL);
    store_freeze(box.s, 1, FREEZE_FROZEN);
    ck_assert_int_eq(store_cache_reserve(box.s, "key", 3, 3 * MIB, 0, 1, &ref), DDICT_EFULL);
    ck_assert_uint_eq(stats().spill_used_bytes, used);
}
END_TEST

static void refused_for_want_of_space(int e) {
    uint64_t n = 0;
    space = 20 * (int64_t)MIB;
    no_space = e;
    while (put(n, 100000, n) == 0)
        n++;
    ck_assert_uint_gt(n, 200);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "for its spill"));
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), strerror(e)));
    for (uint64_t k = 0; k < n; k++)
        MUST(seen(k, 100000, k) == 1);
    ck_assert_int_eq(del(0), 0);
    stats();
    ck_assert_int_eq(put(0, 100000, 0), 0);
    space = INT64_MAX; /* somebody else has removed something */
    ck_assert_int_eq(put(n, 100000, n), 0);
    box_reopen();
    for (uint64_t k = 0; k <= n; k++)
        MUST(seen(k, 100000, k) == 1);
}
START_TEST(a_disk_without_space_is_said_and_nothing_is_lost) {
    refused_for_want_of_space(ENOSPC);
}
END_TEST
START_TEST(a_used_up_quota_is_said_and_nothing_is_lost) {
    refused_for_want_of_space(EDQUOT);
}
END_TEST

#define REFUSED(dir, size, word)                      \
    do {                                              \
        int fd_ = spill_create(dir, size, 2);         \
        ck_assert_int_lt(fd_, 0);                     \
        if (!strstr(dd_errmsg(), word))               \
            ck_abort_msg("%s: %s", dir, dd_errmsg()); \
    } while (0)
START_TEST(a_folder_that_can_not_be_used_is_named_with_why) {
    char text[100];
    REFUSED("/nowhere/at/all", MIB, "/nowhere/at/all can not be used: No such file");
    REFUSED("/dev/null", MIB, "/dev/null is no folder");
    REFUSED("/proc", MIB, "in /proc: ");
    REFUSED("/dev/shm", MIB, "is memory (tmpfs) and no disk");
    int fd = spill_create(".", 0, 2);
    if (fd < 0) { /* the working folder is no disk */
        snprintf(text, sizeof text, "%.90s", dd_errmsg());
        ck_assert_ptr_nonnull(strstr(text, "tmpfs"));
        return;
    }
    ck_assert_uint_gt(spill_size(fd), 0);
    close(fd);
    REFUSED(".", DD_SPILL_MAX, "free");
    space = 0;
    no_space = EOPNOTSUPP;
    REFUSED(".", MIB, "its file system promises no space");
    space = INT64_MAX;
    struct rlimit was, little = {.rlim_cur = 65536};
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
    little.rlim_max = was.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &little), 0);
    REFUSED(".", MIB, "ulimit -f");
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &was), 0);
}
END_TEST

START_TEST(an_arena_and_a_file_that_do_not_belong_together_are_refused) {
    struct store *s;
    struct arena_view a;
    int other = memfd_create("other", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(other, 32 * (off_t)MIB), 0);
    ck_assert_int_eq(store_open(&s, box.fd, other, 7), DDICT_EPROTO);
    ck_assert_int_eq(store_open(&s, box.fd, -1, 7), DDICT_EPROTO);
    ck_assert_int_eq(arena_view_map(&a, box.ro, other, 7), DDICT_EPROTO);
    ck_assert_int_eq(ftruncate(other, 64 * (off_t)MIB + 1), 0);
    ck_assert_int_eq(arena_view_map(&a, box.ro, other, 7), DDICT_EPROTO);
    close(other);
}
END_TEST

/* --- served by threads --- */
static uint64_t known; /* the progress that was seen */
static void serve(void) {
    loop = pthread_self();
    by_loop = 0;
    known = 0;
    wake = eventfd(0, EFD_CLOEXEC);
    ck_assert_int_eq(store_spill_serve(box.s, wake), 0);
}
/* What the manager does between requests, until there is progress. */
static void progress(void) {
    uint64_t n;
    for (struct pollfd p = {.fd = wake, .events = POLLIN}; store_progress(box.s) == known;) {
        if (store_work(box.s) || store_progress(box.s) != known)
            continue;
        if (poll(&p, 1, 20000) != 1)
            ck_abort_msg("no progress");
        MUST(read(wake, &n, sizeof n) == sizeof n);
    }
    known = store_progress(box.s);
}
static int put_waiting(uint64_t k, uint64_t len, uint64_t seed) {
    int rc;
    while ((rc = put(k, len, seed)) == -EAGAIN)
        progress();
    return rc;
}

START_TEST(nobody_waits_for_the_disk_but_who_needs_its_room) {
    uint64_t n = 0;
    int rc;
    serve();
    gate = 1;
    while ((rc = put(n, 100000, n)) == 0)
        n++;
    ck_assert_int_eq(rc, -EAGAIN);
    for (int i = 0; i < 1000; i++)
        store_work(box.s);
    ck_assert_int_eq(put(n, 100000, n), -EAGAIN);
    /* the disk does not have them */
    for (uint64_t k = 0; k < n; k++)
        MUST(seen(k, 100000, k) == 1 && !spilled(k));
    ck_assert_int_eq(del(0), 0);
    ck_assert_int_eq(put(1, 10, 77), 0); /* while it is being written */
    ck_assert_int_eq(seen(1, 10, 77), 1);
    __atomic_store_n(&gate, 0, __ATOMIC_RELEASE);
    ck_assert_int_eq(put_waiting(n, 100000, n), 0);
    for (uint64_t k = n + 1; k < 300; k++)
        MUST(put_waiting(k, 100000, k) == 0);
    ck_assert_int_eq(seen(0, 100000, 0), 0);
    ck_assert_int_eq(seen(1, 10, 77), 1);
    for (uint64_t k = 2; k < 300; k++)
        MUST(seen(k, 100000, k) == 1);
    ck_assert_uint_gt(stats().spill_items, 100);
    ck_assert_uint_eq(by_loop, 0);
}
END_TEST

START_TEST(no_turn_looks_at_more_than_some_values) {
    for (uint64_t k = 0; k < 40000; k++)
        MUST(put(k, 8, k) == 0); /* of which none may move */
    uint64_t hand = box.s->spill.hand, turns = 0;
    serve();
    box.s->spill.want = MIB;
    while (store_work(box.s)) {
        turns++;
        /* a run has at most RUN_BLOCKS_MAX more */
        ck_assert_uint_le(box.s->spill.hand - hand,
                          (DD_SPILL_CHOOSE + RUN_BLOCKS_MAX) * 64 / ARENA_PAGE + 32);
        hand = box.s->spill.hand;
    }
    ck_assert_uint_gt(turns, 40000 / (DD_SPILL_CHOOSE + RUN_BLOCKS_MAX) - 2);
    ck_assert_uint_eq(by_loop, 0);
}
END_TEST

START_TEST(a_value_for_the_spill_alone_is_there_when_the_disk_has_it) {
    struct store_ref ref;
    serve();
    gate = 1;
    ck_assert_int_eq(store_reserve(box.s, "key", 3, 20 * MIB, 9, &ref), 0);
    ck_assert_ptr_nonnull(ref.fill);
    ref_fill_in(&ref, 20 * MIB, 3);
    int rc = 0;
    for (uint64_t got = MIB; got < 20 * MIB && rc == 0; got += MIB)
        rc = store_fill(box.s, &ref, got);
    ck_assert_int_eq(store_fill(box.s, &ref, 20 * MIB), -EAGAIN);
    ck_assert_int_eq(store_find(box.s, "key", 3, &(struct store_ref){0}), DDICT_ENOKEY);
    __atomic_store_n(&gate, 0, __ATOMIC_RELEASE);
    while (store_fill(box.s, &ref, 20 * MIB) == -EAGAIN)
        progress();
    ck_assert_int_eq(store_filled(box.s, &ref), 0); /* and can be read before it is published */
    ck_assert(!ref.fill && item_away(ref.item) && item_len(ref.item) == 20 * MIB);
    struct store_reading *r;
    const uint8_t *data;
    uint8_t *copy = malloc(20 * MIB);
    for (uint64_t from = 0; from < 20 * MIB; from += 15 * MIB + 5) {
        ck_assert_int_eq(store_read_begin(box.s, &ref, from, &r, &data), 0);
        for (uint64_t at = from; at < 20 * MIB;) {
            int64_t ready = store_read_ready(r, at + 1);
            ck_assert_int_ge(ready, 0);
            if ((uint64_t)ready <= at) {
                progress();
                continue;
            }
            ck_assert_uint_le((uint64_t)ready - at, DD_SPILL_AHEAD);
            memcpy(copy + at, data + at, (uint64_t)ready - at);
            store_read_sent(r, at = (uint64_t)ready);
        }
        ck_assert(value_right(copy, 20 * MIB, 3));
        memset(copy + 15 * MIB + 5, 0, 5 * MIB - 5);
        store_read_end(r);
    }
    free(copy);
    ck_assert_int_eq(store_commit(box.s, &ref, STORE_ANY, NULL), 0);
    ck_assert_int_eq(store_find(box.s, "key", 3, &ref), 0);
    ck_assert(item_away(ref.item) && item_is_loaded(ref.item));
    ck_assert_uint_eq(by_loop, 0);
}
END_TEST

/* A value behind the first of its key: nothing of the way there is left. */
START_TEST(a_value_of_a_queue_for_the_spill_alone_is_there) {
    struct store_ref ref, next;
    ck_assert_int_eq(store_reserve(box.s, "key", 3, 8, 9, &ref), 0);
    value_fill(ref.value, 8, 1);
    ck_assert_int_eq(store_commit(box.s, &ref, STORE_ANY, NULL), 0);
    ck_assert_int_eq(store_reserve(box.s, "key", 3, 20 * MIB, 9, &ref), 0);
    ck_assert_ptr_nonnull(ref.fill);
    value_fill(ref.value, 20 * MIB, 3);
    ck_assert_int_eq(store_fill(box.s, &ref, 20 * MIB), 0);
    ck_assert_int_eq(store_queue_push(box.s, &ref), 0);
    ck_assert_ptr_null(ref.fill);
    ck_assert_ptr_null(box.s->spill.fills);
    ck_assert_int_eq(store_pop(box.s, "key", 3, &ref, &next), 0);
    ck_assert(next.item && item_away(next.item) && item_len(next.item) == 20 * MIB);
    store_unpin(box.s, ref.off);
}
END_TEST

static void writing_fails(bool threads) {
    uint64_t n = 0;
    int rc;
    if (threads)
        serve();
    sync_fails = EIO;
    while ((rc = put_waiting(n, 100000, n)) == 0)
        n++;
    ck_assert_int_eq(rc, DDICT_EFULL);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "its disk failed (Input/output error)"));
    const char *text = store_spill_trouble(box.s);
    ck_assert_ptr_nonnull(text);
    ck_assert_ptr_nonnull(strstr(text, "values could not be written: Input/output error"));
    ck_assert_ptr_null(store_spill_trouble(box.s));
    sync_fails = 0; /* nor is it asked again */
    ck_assert_int_eq(put_waiting(n, 100000, n), DDICT_EFULL);
    for (uint64_t k = 0; k < n; k++)
        MUST(seen(k, 100000, k) == 1 && !spilled(k));
    ck_assert_uint_eq(stats().spill_items, 0);
    ck_assert_uint_gt(n, 30);
    ck_assert_int_eq(del(0), 0);
    ck_assert_int_eq(put_waiting(n, 90000, n), 0);
}
START_TEST(an_error_of_writing_loses_nothing) {
    writing_fails(false);
}
END_TEST
START_TEST(an_error_of_writing_loses_nothing_with_threads) {
    writing_fails(true);
}
END_TEST

START_TEST(bytes_that_were_not_written_are_an_error_of_their_value) {
    static const uint8_t zeros[5000];
    static uint8_t copy[100000];
    struct found f;
    struct store_ref ref;
    struct store_reading *r;
    const uint8_t *data;
    for (uint64_t k = 0; k < 100; k++)
        MUST(put(k, 100000, k) == 0);
    ck_assert_int_eq(look_slot(5, 0, &f), 0);
    ck_assert_ptr_nonnull(f.away);
    ck_assert_int_eq(away_read(&box.view, &f, copy, 0, 100000), 0);
    ck_assert(value_right(copy, 100000, 5));
    ck_assert_int_eq((int)pwrite(box.spill, zeros, sizeof zeros,
                                 (off_t)(f.away->off - box.s->header->file_size) + 50000),
                     (int)sizeof zeros);
    ck_assert_int_eq(away_read(&box.view, &f, copy, 0, 100000), -EIO);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "other bytes than were written"));
    ck_assert_int_eq(away_check(&box.view, &f), -EIO);
    ck_assert_int_eq(store_find(box.s, "k5", 2, &ref), 0);
    ck_assert_ptr_null(ref.value);
    ck_assert_int_eq(store_read_begin(box.s, &ref, 0, &r, &data), 0);
    while (store_work(box.s)) {
    }
    ck_assert_int_eq((int)store_read_ready(r, 1), -EIO);
    store_read_end(r);
    ck_assert_ptr_nonnull(strstr(store_spill_trouble(box.s), "can not be read"));
    reader_release(&box.page->slot[0]);
    ck_assert_int_eq(look_slot(6, 0, &f), 0);
    ck_assert_int_eq(away_read(&box.view, &f, copy, 0, 100000), 0);
    reader_release(&box.page->slot[0]);
}
END_TEST

/* Pieces end elsewhere than what has a checksum of its own: what is ready is not always passed on
 * to its end. */
START_TEST(an_error_behind_what_is_ready_is_known) {
    static const uint8_t zeros[5000];
    struct found f;
    struct store_ref ref;
    struct store_reading *r;
    const uint8_t *data;
    MUST(put(1000, 600000, 1000) == 0);
    for (uint64_t k = 0; k < 100; k++)
        MUST(put(k, 100000, k) == 0);
    ck_assert_int_eq(look_slot(1000, 0, &f), 0);
    ck_assert_ptr_nonnull(f.away);
    ck_assert_int_eq(
        (int)pwrite(box.spill, zeros, sizeof zeros,
                    (off_t)(f.away->off - box.s->header->file_size) + DD_SPILL_CHUNK + 50000),
        (int)sizeof zeros);
    ck_assert_int_eq(store_find(box.s, "k1000", 5, &ref), 0);
    ck_assert_int_eq(store_read_begin(box.s, &ref, 0, &r, &data), 0);
    while (store_work(box.s)) {
    }
    ck_assert_int_eq((int)store_read_ready(r, DD_SPILL_CHUNK), DD_SPILL_CHUNK);
    ck_assert_int_eq((int)store_read_ready(r, DD_SPILL_CHUNK + 1), -EIO);
    store_read_end(r);
    reader_release(&box.page->slot[0]);
}
END_TEST

UNIT_MAIN_WITH("store_spill", before, after, nobody_waits_for_the_disk_but_who_needs_its_room,
               no_turn_looks_at_more_than_some_values,
               a_value_for_the_spill_alone_is_there_when_the_disk_has_it,
               a_value_of_a_queue_for_the_spill_alone_is_there, an_error_of_writing_loses_nothing,
               an_error_of_writing_loses_nothing_with_threads,
               bytes_that_were_not_written_are_an_error_of_their_value,
               an_error_behind_what_is_ready_is_known, values_beyond_memory_are_in_the_spill,
               one_value_may_be_larger_than_memory, it_is_the_model_whatever_comes_and_goes,
               no_block_there_is_taken_for_an_item, what_is_read_there_stays_until_it_is_let_go_of,
               full_is_when_both_are_full_and_nothing_is_lost, values_make_room_for_the_index,
               values_of_other_managers_are_never_there,
               a_disk_without_space_is_said_and_nothing_is_lost,
               a_used_up_quota_is_said_and_nothing_is_lost,
               a_folder_that_can_not_be_used_is_named_with_why,
               an_arena_and_a_file_that_do_not_belong_together_are_refused)

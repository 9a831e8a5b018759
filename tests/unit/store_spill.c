/* SPDX-License-Identifier: Apache-2.0 */
/* store_spill.c - a file behind the memory: the same keys and values whichever of the two they lie in, also after a crash; and what is said when it has no room. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "store_test.h"

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

/* For loops: libcheck writes to a file for each of its assertions. */
#define MUST(e)                               \
    do {                                      \
        if (!(e)) ck_abort_msg("%s: %s", #e, dd_errmsg()); \
    } while (0)

static void before(void) {
    space = INT64_MAX;
    no_space = ENOSPC;
    box_open_spill(4 * MIB, 64 * MIB);
}
static void after(void) { box_close(); }

static bool spilled(uint64_t k) {
    struct found f;
    MUST(look_slot(k, 0, &f) == 0);
    reader_release(&box.page->slot[0]);
    return f.away != NULL;
}

START_TEST(values_beyond_memory_are_in_the_spill) {
    uint64_t n = 0, there = 0;
    for (; n < 600; n++) MUST(put(n, n % 3 ? 100 * n : 20 * n, n) == 0); /* 15 MiB */
    for (uint64_t k = 0; k < n; k++) {
        MUST(seen(k, k % 3 ? 100 * k : 20 * k, k) == 1);
        there += spilled(k);
    }
    struct ddict_manager_stats s = stats();
    ck_assert_uint_eq(keys_count(), n);
    ck_assert_uint_eq(s.num_keys, n);
    ck_assert_uint_le(s.total_used_bytes, 4 * MIB);
    ck_assert_uint_eq(s.spill_total_bytes, 64 * MIB);
    ck_assert_uint_eq(s.spill_items, there);
    ck_assert_uint_gt(there, 200);
    ck_assert_uint_gt(s.spill_used_bytes, 9 * MIB);
    ck_assert_uint_ge(s.spilled_bytes, s.spill_used_bytes);
    ck_assert_uint_lt(there, n); /* memory first */
    ck_assert(!spilled(n - 1));
    for (uint64_t k = 0; k < n; k++) MUST(del(k) == 0);
    s = stats();
    ck_assert_uint_eq(s.spill_used_bytes + s.spill_items, 0);
    ck_assert_uint_eq(s.total_used_bytes, budget_fixed(box.s));
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
static struct { uint32_t len; uint64_t seed; bool there; } model[KEYS];
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
            if (rc < 0) continue;
            model[k].there = true;
            model[k].len = len;
            model[k].seed = seed;
        }
        model_compare();
        struct ddict_manager_stats was = stats();
        ck_assert_uint_gt(was.spill_items, 0);
        if (round % 3 != 2) continue;
        box_reopen();
        struct ddict_manager_stats is = stats();
        ck_assert_uint_eq(is.spill_used_bytes, was.spill_used_bytes);
        ck_assert_uint_eq(is.spill_items, was.spill_items);
        ck_assert_uint_eq(is.total_used_bytes, was.total_used_bytes);
        model_compare();
    }
    ck_assert_uint_eq(refused, 0);
    ck_assert_int_eq(store_clear(box.s, nobody), 0);
    while (store_work(box.s)) { }
    ck_assert_uint_eq(stats().spill_used_bytes, 0);
    ck_assert_uint_eq(keys_count(), 0);
}
END_TEST

START_TEST(what_is_read_there_stays_until_it_is_let_go_of) {
    struct found f;
    for (uint64_t k = 0; k < 100; k++) MUST(put(k, 100000, k) == 0);
    ck_assert(spilled(5));
    ck_assert_int_eq(look_slot(5, 5, &f), 0);
    uint64_t used = stats().spill_used_bytes;
    ck_assert_int_eq(del(5), 0);
    ck_assert_uint_eq(stats().spill_used_bytes, used);
    box_reopen();
    for (uint64_t k = 100; k < 800; k++)
        if (put(k, 100000, k) < 0) break;
    ck_assert(value_right(f.value, 100000, 5));
    reader_release(&box.page->slot[5]);
    ck_assert_uint_eq(stats().leased_bytes, 0);
}
END_TEST

START_TEST(full_is_when_both_are_full_and_nothing_is_lost) {
    uint64_t n = 0, more = 0;
    char dir[4096];
    while (put(n, 50000, n) == 0) n++;
    ck_assert_uint_gt(n, 1150);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "of memory and"));
    if (getcwd(dir, sizeof dir) && strstr(dd_errmsg(), "memfd") == NULL) ck_assert_ptr_nonnull(strstr(dd_errmsg(), dir));
    for (uint64_t k = 0; k < n; k++) MUST(seen(k, 50000, k) == 1);
    for (uint64_t k = 0; k < n; k += 2) MUST(del(k) == 0);
    while (put(n + more, 50000, more) == 0) more++;
    ck_assert_uint_ge(more, n / 2 - 2);
}
END_TEST

/* Large values have filled memory when small keys want index. */
START_TEST(values_make_room_for_the_index) {
    struct found f;
    for (uint64_t k = 0; k < 60; k++) MUST(put(k, 60000, k) == 0);
    ck_assert_int_eq(look_slot(3, 4, &f), 0);
    ck_assert_uint_lt(f.off, box.s->header->file_size);
    for (uint64_t k = 1000; k < 37000; k++) MUST(put(k, 8, k) == 0); /* 0.8 MiB of index */
    ck_assert_uint_gt(box.s->header->segments * DD_SEGMENT_SIZE, MIB / 2);
    ck_assert(value_right(f.value, 60000, 3)); /* where it was: it is held */
    reader_release(&box.page->slot[4]);
    for (uint64_t k = 0; k < 60; k++) MUST(seen(k, 60000, k) == 1);
    for (uint64_t k = 1000; k < 37000; k++) MUST(seen(k, 8, k) == 1);
    uint64_t moved = 0;
    for (uint64_t k = 0; k < 30; k++) moved += spilled(k);
    ck_assert_uint_gt(moved, 0);
    ck_assert_uint_le(budget_resident(box.s), 4 * MIB);
    box_reopen();
    for (uint64_t k = 0; k < 60; k++) MUST(seen(k, 60000, k) == 1);
    ck_assert_uint_eq(keys_count(), 36060);
}
END_TEST

START_TEST(values_of_other_managers_are_never_there) {
    struct store_ref ref;
    for (uint64_t k = 0; k < 100; k++) MUST(put(k, 100000, k) == 0);
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
    while (put(n, 100000, n) == 0) n++;
    ck_assert_uint_gt(n, 200);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "for its spill"));
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), strerror(e)));
    for (uint64_t k = 0; k < n; k++) MUST(seen(k, 100000, k) == 1);
    ck_assert_int_eq(del(0), 0);
    stats();
    ck_assert_int_eq(put(0, 100000, 0), 0);
    space = INT64_MAX; /* somebody else has removed something */
    ck_assert_int_eq(put(n, 100000, n), 0);
    box_reopen();
    for (uint64_t k = 0; k <= n; k++) MUST(seen(k, 100000, k) == 1);
}
START_TEST(a_disk_without_space_is_said_and_nothing_is_lost) { refused_for_want_of_space(ENOSPC); }
END_TEST
START_TEST(a_used_up_quota_is_said_and_nothing_is_lost) { refused_for_want_of_space(EDQUOT); }
END_TEST

#define REFUSED(dir, size, word)                                                      \
    do {                                                                              \
        int fd_ = spill_create(dir, size, 2);                                         \
        ck_assert_int_lt(fd_, 0);                                                     \
        if (!strstr(dd_errmsg(), word)) ck_abort_msg("%s: %s", dir, dd_errmsg());     \
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

UNIT_MAIN_WITH("store_spill", before, after, values_beyond_memory_are_in_the_spill, one_value_may_be_larger_than_memory, it_is_the_model_whatever_comes_and_goes,
               what_is_read_there_stays_until_it_is_let_go_of, full_is_when_both_are_full_and_nothing_is_lost, values_make_room_for_the_index,
               values_of_other_managers_are_never_there, a_disk_without_space_is_said_and_nothing_is_lost, a_used_up_quota_is_said_and_nothing_is_lost,
               a_folder_that_can_not_be_used_is_named_with_why, an_arena_and_a_file_that_do_not_belong_together_are_refused)

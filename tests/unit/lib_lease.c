/* SPDX-License-Identifier: Apache-2.0 */
/* lib_lease.c - slots of threads (rules L1..L5 of client/lib/lease.h) on a lease page of the test's
 * own. */
#include <check.h>
#include <errno.h>
#include <lib/lease.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct session *begin(void) {
    static uint64_t id = 1000;
    struct session *s = calloc(1, sizeof *s);
    s->id = ++id;
    s->sock = s->pipe = -1;
    s->lease_page = mmap(NULL, LEASE_FILE_SIZE, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_mutex_init(&s->lease_lock, NULL);
    pthread_mutex_lock(&registry_lock);
    s->next = sessions;
    sessions = s;
    pthread_mutex_unlock(&registry_lock);
    return s;
}

static uint32_t take(struct session *s, uint64_t word) {
    uint32_t n;
    struct lease_thread *t = lease_thread(s);
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(lease_take(t, &n), 0);
    uint64_t *slot = lease_slot(s->lease_page, n);
    ck_assert_uint_eq(*slot, 0);
    ck_assert_ptr_ne(slot, t->scratch); /* L5 */
    __atomic_store_n(slot, word, __ATOMIC_RELEASE);
    return n;
}

static uint64_t chunks(struct session *s) {
    return ((struct lease_chunk *)(void *)s->lease_page)->chunks;
}

START_TEST(slots_in_use_are_all_different) {
    struct session *s = begin();
    enum { N = 5000 };
    uint32_t n[N];
    for (unsigned i = 0; i < N; i++)
        n[i] = take(s, i + 1);
    for (unsigned i = 0; i < N; i++)
        ck_assert_uint_eq(*lease_slot(s->lease_page, n[i]), i + 1); /* nobody wrote over it */
    ck_assert_uint_eq(chunks(s), N / DD_LEASE_CHUNK_SLOTS + 1);
    for (unsigned i = 0; i < N; i++)
        lease_release(s, n[i]);
    ck_assert(!lease_any(s));
    for (unsigned i = 0; i < 100000; i++)
        lease_release(s, take(s, 7));
    ck_assert_uint_eq(chunks(s), N / DD_LEASE_CHUNK_SLOTS + 1);
}
END_TEST

static struct session *shared;
static uint32_t *numbers;
static unsigned count;

static void *release_all(void *arg) {
    for (unsigned i = 0; i < count; i++)
        lease_release(shared, numbers[i]);
    return arg;
}

static void *take_all(void *arg) {
    for (unsigned i = 0; i < count; i++)
        numbers[i] = take(shared, i + 1);
    return arg;
}

static void in_thread(void *(*run)(void *)) {
    pthread_t t;
    ck_assert(pthread_create(&t, NULL, run, NULL) == 0);
    pthread_join(t, NULL);
}

START_TEST(slots_released_by_others_come_back_to_their_owner) {
    shared = begin();
    count = 3000;
    numbers = calloc(count, sizeof *numbers);
    for (int round = 0; round < 50; round++) {
        take_all(NULL);
        in_thread(release_all);
        ck_assert(!lease_any(shared));
    }
    ck_assert_uint_le(chunks(shared), 3000 / DD_LEASE_CHUNK_SLOTS + 3);
    free(numbers);
}
END_TEST

START_TEST(chunks_of_threads_that_ended_are_used_again) {
    shared = begin();
    count = 600;
    numbers = calloc(count, sizeof *numbers);
    for (int round = 0; round < 300; round++) {
        in_thread(take_all);
        in_thread(release_all);
    }
    ck_assert_uint_le(chunks(shared), 8);
    in_thread(take_all); /* held beyond the thread's end: not given to anybody */
    uint32_t mine[2000];
    for (unsigned i = 0; i < 2000; i++)
        mine[i] = take(shared, 100000 + i);
    for (unsigned i = 0; i < count; i++)
        ck_assert_uint_eq(*lease_slot(shared->lease_page, numbers[i]), i + 1);
    for (unsigned i = 0; i < 2000; i++)
        lease_release(shared, mine[i]);
    release_all(NULL);
    ck_assert(!lease_any(shared));
    free(numbers);
}
END_TEST

START_TEST(a_marked_slot_is_not_given_out_twice) {
    struct session *s = begin();
    enum { N = 3 * DD_LEASE_CHUNK_SLOTS - 1 }; /* with the scratch slot all of three chunks */
    uint32_t n[N];
    for (unsigned i = 0; i < N; i++)
        n[i] = take(s, LEASE_MARK); /* L2 */
    shared = s;
    numbers = n; /* one released elsewhere makes the owner look through its chunks */
    count = 1;
    in_thread(release_all);
    uint32_t again = take(s, 5);
    ck_assert_uint_eq(again, n[0]);
    for (unsigned i = 1; i < N; i++)
        ck_assert_uint_eq(*lease_slot(s->lease_page, n[i]), LEASE_MARK);
}
END_TEST

START_TEST(when_all_are_taken_it_says_so_and_goes_on_after_a_release) {
    struct session *s = begin();
    uint32_t *n = calloc((size_t)DD_LEASE_CHUNKS * DD_LEASE_CHUNK_SLOTS, sizeof *n), more;
    struct lease_thread *t = lease_thread(s);
    unsigned k = 0;
    int rc;
    while ((rc = lease_take(t, &n[k])) == 0)
        *lease_slot(s->lease_page, n[k++]) = 1;
    ck_assert_int_eq(rc, DDICT_EVIEWS);
    ck_assert_uint_eq(k, DD_LEASE_CHUNKS * DD_LEASE_CHUNK_SLOTS - 1); /* less the scratch */
    ck_assert_uint_eq(chunks(s), DD_LEASE_CHUNKS);
    ck_assert_int_eq(lease_take(t, &more), DDICT_EVIEWS);
    lease_release(s, n[k / 2]);
    ck_assert_int_eq(lease_take(t, &more), 0);
    ck_assert_uint_eq(more, n[k / 2]);
    free(n);
}
END_TEST

START_TEST(an_inherited_slot_is_cleared_by_the_last_of_its_processes) {
    struct session *s = begin();
    s->refs = calloc((size_t)DD_LEASE_CHUNKS * DD_LEASE_CHUNK_SLOTS, sizeof *s->refs);
    s->chunks = 1;
    *lease_slot(s->lease_page, 9) = 77;
    s->refs[9] = 2;
    s->inherited = 1; /* of this process; the other one is another */
    lease_release(s, 9);
    ck_assert_uint_eq(*lease_slot(s->lease_page, 9), 77);
    ck_assert(!lease_any(s));
    s->inherited = 1;
    lease_release(s, 9);
    ck_assert_uint_eq(*lease_slot(s->lease_page, 9), 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_lease");
    TCase *t = tcase_create("lease");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, slots_in_use_are_all_different);
    tcase_add_test(t, slots_released_by_others_come_back_to_their_owner);
    tcase_add_test(t, chunks_of_threads_that_ended_are_used_again);
    tcase_add_test(t, a_marked_slot_is_not_given_out_twice);
    tcase_add_test(t, when_all_are_taken_it_says_so_and_goes_on_after_a_release);
    tcase_add_test(t, an_inherited_slot_is_cleared_by_the_last_of_its_processes);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}

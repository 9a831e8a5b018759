/* SPDX-License-Identifier: Apache-2.0 */
/* client_window_steps.c - working sets: what others do between two requests of one call. The program has
 * the library's parts in it, and stands between them by the linker's --wrap. */
#include "client_window.h"

#define INDEX "\0ddict.window/i/"
#define VALUE "\0ddict.window/v/"

/* The answer to the next put of a value comes too late. */
static bool late;
/* What comes once before a put_if of an index, or between the reads of the window and of an index. */
static void (*before_write)(void), (*before_index)(void);
static char index_key[256]; /* of the latter */
static size_t index_len;

static bool is_index(const void *k, size_t len) {
    return memmem(k, len, INDEX, sizeof INDEX - 1) != NULL;
}
static void once(void (**what)(void)) {
    void (*f)(void) = *what;
    *what = NULL;
    if (f)
        f();
}

int __real_ddict_put_if(ddict_t *of, const void *k, size_t len, const void *val, size_t vlen,
                        unsigned flags, uint64_t version, uint64_t *now, int timeout_ms);
int __wrap_ddict_put_if(ddict_t *of, const void *k, size_t len, const void *val, size_t vlen,
                        unsigned flags, uint64_t version, uint64_t *now, int timeout_ms);
int __wrap_ddict_put_if(ddict_t *of, const void *k, size_t len, const void *val, size_t vlen,
                        unsigned flags, uint64_t version, uint64_t *now, int timeout_ms) {
    if (is_index(k, len))
        once(&before_write);
    return __real_ddict_put_if(of, k, len, val, vlen, flags, version, now, timeout_ms);
}

ssize_t __real_ddict_get_many(ddict_t *of, struct ddict_want *w, size_t n, unsigned flags,
                              int timeout_ms);
ssize_t __wrap_ddict_get_many(ddict_t *of, struct ddict_want *w, size_t n, unsigned flags,
                              int timeout_ms);
ssize_t __wrap_ddict_get_many(ddict_t *of, struct ddict_want *w, size_t n, unsigned flags,
                              int timeout_ms) {
    if (!before_index || n != 2 || !is_index(w[1].key, w[1].klen))
        return __real_ddict_get_many(of, w, n, flags, timeout_ms);
    memcpy(index_key, w[1].key, index_len = w[1].klen);
    ssize_t first = __real_ddict_get_many(of, w, 1, flags, timeout_ms);
    once(&before_index);
    ssize_t second = __real_ddict_get_many(of, w + 1, 1, flags, timeout_ms);
    return first < 0 ? first : second < 0 ? second : first + second;
}

int __real_ddict_putv(ddict_t *of, const void *k, size_t len, const struct iovec *iov, int n,
                      unsigned flags, int timeout_ms);
int __wrap_ddict_putv(ddict_t *of, const void *k, size_t len, const struct iovec *iov, int n,
                      unsigned flags, int timeout_ms);
int __wrap_ddict_putv(ddict_t *of, const void *k, size_t len, const struct iovec *iov, int n,
                      unsigned flags, int timeout_ms) {
    int rc = __real_ddict_putv(of, k, len, iov, n, flags, timeout_ms);
    if (!late || !memmem(k, len, VALUE, sizeof VALUE - 1))
        return rc;
    late = false;
    return -ETIMEDOUT;
}

struct window_ask;
struct call_deadline;
int __real_window_ask_wait(struct window_ask *a, struct call_deadline *w);
int __wrap_window_ask_wait(struct window_ask *a, struct call_deadline *w);
int __wrap_window_ask_wait(struct window_ask *a, struct call_deadline *w) {
    int rc = __real_window_ask_wait(a, w);
    if (!late)
        return rc;
    late = false;
    return -ETIMEDOUT;
}

/* What comes once before many values are stored. */
static void (*before_values)(void);
ssize_t __real_ddict_put_many(ddict_t *of, struct ddict_pair *pairs, size_t n, int timeout_ms);
ssize_t __wrap_ddict_put_many(ddict_t *of, struct ddict_pair *pairs, size_t n, int timeout_ms);
ssize_t __wrap_ddict_put_many(ddict_t *of, struct ddict_pair *pairs, size_t n, int timeout_ms) {
    if (memmem(pairs[0].key, pairs[0].klen, VALUE, sizeof VALUE - 1))
        once(&before_values);
    return __real_ddict_put_many(of, pairs, n, timeout_ms);
}

static char other[32];
static size_t olen;

static void persistent(ddict_t *of, uint64_t id, const void *k, size_t len, const char *text) {
    at(of, id);
    ok(ddict_put(of, k, len, text, strlen(text), DDICT_TAG(4) | DDICT_PERSISTENT, WAIT));
}
static void come(uint64_t id) { /* the checkpoint becomes the newest */
    persistent(d[1], id, other, olen, "other");
}
static void come_1(void) {
    come(1);
}
static void come_3(void) {
    come(3);
}
static void come_2_and_3(void) {
    come(2);
    come(3);
}
static void begin_with_keys(const char *working_set, unsigned owner) {
    begin(working_set);
    klen = key_of(d[0], owner, 0, key, sizeof key);
    olen = key_of(d[0], 0, 9, other, sizeof other);
}
/* --- a put that is overtaken by the retirement of its checkpoint, where keys are awaited --- */
static void overtaken(uint64_t kept_at, uint64_t oldest, void (*retire)(void)) {
    begin_with_keys("2,wait-for-keys", 3);
    persistent(d[0], kept_at, key, klen, "kept");
    if (oldest == 1)
        come(2);
    at(d[0], 1);
    before_write = retire;
    fails(DDICT_ERETIRED, ddict_put(d[0], key, klen, "late", 4, DDICT_TAG(4), WAIT));
    ck_assert(!before_write);
    has(d[0], 2, "kept");
    has(d[1], 3, "kept");
    items_become(6); /* two indexes, what each has at 2, `other` at 3, and W */
    end();
}
START_TEST(a_put_that_is_overtaken_gives_back_what_was_before_it) {
    overtaken(0, 1, come_3);
}
END_TEST
START_TEST(a_put_that_is_overtaken_gives_back_what_its_checkpoint_had) {
    overtaken(1, 1, come_3);
}
END_TEST
START_TEST(a_put_that_is_overtaken_twice_leaves_what_was_before_it) {
    overtaken(0, 0, come_2_and_3);
}
END_TEST

START_TEST(a_put_that_is_overtaken_leaves_the_key_removed) {
    begin_with_keys("2,wait-for-keys", 3);
    persistent(d[0], 0, key, klen, "kept");
    at(d[0], 1);
    ok(ddict_del(d[0], key, klen, WAIT));
    before_write = come_2_and_3;
    fails(DDICT_ERETIRED, ddict_put(d[0], key, klen, "late", 4, DDICT_TAG(4), WAIT));
    at(d[0], 2);
    ck_assert_int_eq(ddict_contains(d[0], key, klen, NULL, WAIT), 0);
    ck_assert_int_eq(ddict_len(d[0], WAIT), 1);
    end();
}
END_TEST

START_TEST(a_put_of_many_that_is_overtaken_leaves_no_value) {
    begin_with_keys("2,wait-for-keys", 3);
    persistent(d[0], 0, key, klen, "zero");
    persistent(d[0], 1, key, klen, "kept");
    come(2);
    struct ddict_pair p = {.key = key, .klen = klen, .val = "late", .vlen = 4};
    at(d[0], 1);
    before_values = come_3;
    fails(DDICT_ERETIRED, (int)ddict_put_many(d[0], &p, 1, WAIT));
    ck_assert(!before_values);
    has(d[0], 2, "kept");
    items_become(6); /* two indexes, what each has at 2, `other` at 3, and W */
    end();
}
END_TEST

START_TEST(a_put_that_is_in_time_removes_what_was_before_it) {
    begin_with_keys("2,wait-for-keys", 3);
    persistent(d[0], 0, key, klen, "kept");
    come(2);
    ok(put(d[0], 1, "in time"));
    has(d[1], 1, "in time");
    items_become(5); /* two indexes, two values, and W */
    end();
}
END_TEST

/* --- W3, W5: the second look at the window --- */
static void remove_at_1(void) {
    at(d[1], 1);
    ok(ddict_del(d[1], key, klen, WAIT));
}
START_TEST(a_key_is_not_absent_where_a_newer_checkpoint_removed_it) {
    struct ddict_view v;
    begin_with_keys("1", 3);
    ok(put(d[0], 0, "zero"));
    at(d[0], 0);
    before_index = remove_at_1;
    fails(DDICT_ERETIRED, ddict_view(d[0], key, klen, &v, 0, WAIT));
    ck_assert(!before_index);
    end();
}
END_TEST

static void see_none_at_1(void) {
    come_1();
    has_none(d[1], 1);
}
START_TEST(a_first_put_looks_at_the_window_when_its_index_is_there) {
    begin_with_keys("1", 3);
    at(d[0], 0);
    before_write = see_none_at_1;
    fails(DDICT_ERETIRED, ddict_put(d[0], key, klen, "late", 4, DDICT_TAG(4), WAIT));
    ck_assert(!before_write);
    has_none(d[1], 1);
    items_become(3); /* `other` and W */
    end();
}
END_TEST

/* Somebody else begins with a first put, late: it has the window as it was. */
static void make_index(void) {
    ok(__real_ddict_put_if(d[1], index_key, index_len, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16, 0, 0,
                           NULL, WAIT));
}
static void remove_at_1_and_make(void) {
    remove_at_1();
    make_index();
}
START_TEST(a_key_is_not_absent_where_its_index_is_a_new_one) {
    struct ddict_view v;
    struct ddict_want w = {.key = key};
    begin_with_keys("1", 3);
    ok(put(d[0], 0, "zero"));
    at(d[0], 0);
    before_index = remove_at_1_and_make;
    fails(DDICT_ERETIRED, ddict_view(d[0], key, klen, &v, 0, WAIT));
    ck_assert(!before_index);
    w.klen = klen;
    fails(DDICT_ERETIRED, ddict_get_many(d[0], &w, 1, 0, WAIT));
    end();
}
END_TEST

static void see_none_at_1_and_make(void) {
    see_none_at_1();
    make_index();
}
START_TEST(a_put_looks_at_the_window_when_its_index_is_empty) {
    begin_with_keys("1", 3);
    at(d[0], 0);
    before_index = see_none_at_1_and_make;
    fails(DDICT_ERETIRED, ddict_put(d[0], key, klen, "late", 4, DDICT_TAG(4), WAIT));
    ck_assert(!before_index);
    has_none(d[1], 1);
    items_become(3); /* `other` and W */
    end();
}
END_TEST

/* --- lists --- */
static void remove_at_0(void) {
    at(d[1], 0);
    ok(ddict_del(d[1], key, klen, WAIT));
}
START_TEST(a_clear_awaits_no_key_that_somebody_else_removed) {
    begin_with_keys("2,wait-for-keys", 3);
    ok(put(d[0], 0, "zero"));
    before_index = remove_at_0;
    ok(ddict_clear(d[0], 2000));
    ck_assert(!before_index);
    ck_assert_int_eq(ddict_len(d[0], WAIT), 0);
    end();
}
END_TEST

/* --- a value of which nobody knows whether it was stored --- */
START_TEST(a_value_whose_answer_is_late_is_removed) {
    begin_with_keys("2", 0);
    ok(put(d[0], 0, "zero"));
    uint64_t were = items();
    for (unsigned i = 0; i < 2;
         i++) { /* whether the value is sent before the index is read, or after */
        late = true;
        ck_assert_int_eq(ddict_put(d[0], key, klen, "late", 4, i ? DDICT_EXISTING : 0, WAIT),
                         -ETIMEDOUT);
        ck_assert(!late);
        has(d[0], 0, "zero");
        items_become(were);
    }
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        a_put_that_is_overtaken_gives_back_what_was_before_it,
        a_put_that_is_overtaken_gives_back_what_its_checkpoint_had,
        a_put_that_is_overtaken_twice_leaves_what_was_before_it,
        a_put_that_is_overtaken_leaves_the_key_removed,
        a_put_of_many_that_is_overtaken_leaves_no_value,
        a_put_that_is_in_time_removes_what_was_before_it,
        a_key_is_not_absent_where_a_newer_checkpoint_removed_it,
        a_first_put_looks_at_the_window_when_its_index_is_there,
        a_key_is_not_absent_where_its_index_is_a_new_one,
        a_put_looks_at_the_window_when_its_index_is_empty,
        a_clear_awaits_no_key_that_somebody_else_removed,
        a_value_whose_answer_is_late_is_removed,
    };
    return tests_main("client_window_steps", argc, argv, tests, sizeof tests / sizeof *tests);
}

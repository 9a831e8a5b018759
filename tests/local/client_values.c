/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_values.c - keys and values of ddict_values.h. Invariants: every key and value has the one
 * form of doc/FORMAT.md, and comes back from it; what is in no such form is an error and is read
 * nowhere past its end; elements of arrays are read where they lie. tests/python/languages.t has
 * the same beside Python.
 */
#include "client_dict.h"
#include <ddict_values.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB  (1u << 20)
#define SPAN 4096u

#define is(len, text, buf)                                   \
    do {                                                     \
        ck_assert_int_eq(len, sizeof(text) - 1);             \
        ck_assert(memcmp(buf, text, sizeof(text) - 1) == 0); \
    } while (0)

START_TEST(each_key_has_its_one_form) {
    char k[64];
    is(ddict_key_str(k, sizeof k, "w", 1), "sw", k);
    is(ddict_key_str(k, sizeof k, "", 0), "s", k);
    is(ddict_key_bytes(k, sizeof k, "a\0b", 3), "ba\0b", k);
    is(ddict_key_int(k, sizeof k, 0), "i0", k);
    is(ddict_key_int(k, sizeof k, -7), "i-7", k);
    is(ddict_key_int(k, DDICT_KEY_INT_ROOM, INT64_MIN), "i-9223372036854775808", k);
    is(ddict_key_uint(k, DDICT_KEY_INT_ROOM, UINT64_MAX), "i18446744073709551615", k);
    struct ddict_key_part p[3] = {{.kind = DDICT_KEY_INT, .number = 1},
                                  {.kind = DDICT_KEY_STR, .data = "x", .len = 1}};
    is(ddict_key_tuple(k, sizeof k, p, 0), "t", k);
    is(ddict_key_tuple(k, sizeof k, p, 2), "t\2\0\0\0i1\2\0\0\0sx", k);
    char all[64];
    p[2] = (struct ddict_key_part){.kind = DDICT_KEY_TUPLE, .data = k + 1, .len = 12};
    is(ddict_key_tuple(all, sizeof all, p + 2, 1), "t\15\0\0\0t\2\0\0\0i1\2\0\0\0sx", all);
    p[0] =
        (struct ddict_key_part){.kind = DDICT_KEY_BIG, .data = "-18446744073709551616", .len = 21};
    is(ddict_key_tuple(all, sizeof all, p, 1), "t\26\0\0\0i-18446744073709551616", all);
}
END_TEST

START_TEST(a_key_that_does_not_fit_is_refused) {
    char k[16], *large = calloc(1, DDICT_KEY_MAX + 1);
    for (size_t cap = 0; cap < 6; cap++)
        fails(DDICT_ESMALL, ddict_key_str(k, cap, "hello", 5));
    ok(ddict_key_str(k, 6, "hello", 5));
    fails(DDICT_ESMALL, ddict_key_int(k, 2, 10));
    struct ddict_key_part p = {.kind = DDICT_KEY_STR, .data = "x", .len = 1};
    for (size_t cap = 0; cap < 7; cap++)
        fails(DDICT_ESMALL, ddict_key_tuple(k, cap, &p, 1));
    is(ddict_key_tuple(k, 7, &p, 1), "t\2\0\0\0sx", k);
    fails(DDICT_EKEYSIZE, ddict_key_bytes(large, DDICT_KEY_MAX + 1, large, DDICT_KEY_MAX));
    ok(ddict_key_bytes(large, DDICT_KEY_MAX, large, DDICT_KEY_MAX - 1));
    fails(DDICT_EKEYSIZE, ddict_key_bytes(large, SIZE_MAX, large, SIZE_MAX));
    p.kind = 'x';
    fails(-EINVAL, ddict_key_tuple(k, sizeof k, &p, 1));
    static const char *const no_numbers[] = {"", "-", "01", "-0", "1x", "+1", " 1"};
    for (size_t i = 0; i < sizeof no_numbers / sizeof *no_numbers; i++) {
        p = (struct ddict_key_part){
            .kind = DDICT_KEY_BIG, .data = no_numbers[i], .len = strlen(no_numbers[i])};
        fails(-EINVAL, ddict_key_tuple(k, sizeof k, &p, 1));
    }
    p = (struct ddict_key_part){.kind = DDICT_KEY_TUPLE, .data = "\2\0\0\0s", .len = 5};
    fails(-EINVAL, ddict_key_tuple(k, sizeof k, &p, 1));
    free(large);
}
END_TEST

START_TEST(a_key_is_parsed_into_what_it_was_made_of) {
    struct ddict_key_part key, p[3];
    ok(ddict_key_parse("sw", 2, &key));
    ck_assert(key.kind == DDICT_KEY_STR && key.len == 1 && *(const char *)key.data == 'w');
    fails(-EINVAL, ddict_key_parts(&key, p, 3));
    ok(ddict_key_parse("b", 1, &key));
    ck_assert(key.kind == DDICT_KEY_BYTES && key.len == 0);
    static const char *const numbers[] = {"i0", "i-1", "i9223372036854775807",
                                          "i-9223372036854775808"};
    static const int64_t values[] = {0, -1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < 4; i++) {
        ok(ddict_key_parse(numbers[i], strlen(numbers[i]), &key));
        ck_assert(key.kind == DDICT_KEY_INT && key.number == values[i]);
    }
    static const char *const big[] = {"i9223372036854775808", "i-9223372036854775809"};
    for (size_t i = 0; i < 2; i++) {
        ok(ddict_key_parse(big[i], strlen(big[i]), &key));
        ck_assert(key.kind == DDICT_KEY_BIG && key.len == strlen(big[i]) - 1);
    }
    static const char text[] = "t\2\0\0\0i1\7\0\0\0t\2\0\0\0sx";
    ok(ddict_key_parse(text, sizeof text - 1, &key));
    ck_assert_int_eq(ddict_key_parts(&key, p, 1), 2);
    ck_assert(p[0].kind == DDICT_KEY_INT && p[0].number == 1);
    ck_assert_int_eq(ddict_key_parts(&key, p, 3), 2);
    ck_assert_int_eq(ddict_key_parts(&p[1], p + 2, 1), 1);
    ck_assert(p[2].kind == DDICT_KEY_STR && p[2].len == 1);
    ok(ddict_key_parse("t", 1, &key));
    ck_assert_int_eq(ddict_key_parts(&key, p, 3), 0);
}
END_TEST

/* len bytes that end where the memory does. */
static void *at_end(const void *data, size_t len) {
    static char *span;
    if (!span) {
        span = mmap(NULL, 2 * SPAN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert(span != MAP_FAILED && mprotect(span + SPAN, SPAN, PROT_NONE) == 0);
    }
    memcpy(span + SPAN - len, data, len);
    return span + SPAN - len;
}

START_TEST(bytes_that_are_no_key_are_refused) {
    static const struct {
        const char *text;
        size_t len;
    } bad[] = {
        {"", 0},
        {"x", 1},
        {"i", 1},
        {"i01", 3},
        {"i-0", 3},
        {"i1 ", 3},
        {"t\2\0\0", 4},
        {"t\2\0\0\0s", 6},
        {"t\0\0\0\0", 5},
        {"t\xff\xff\xff\xffs", 6},
        {"t\1\0\0\0x", 6},
        {"t\6\0\0\0t\2\0\0\0s", 11},
        {"t\2\0\0\0i1\1", 8},
    };
    struct ddict_key_part key;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        fails(-EBADMSG, ddict_key_parse(at_end(bad[i].text, bad[i].len), bad[i].len, &key));
    char deep[5000]; /* a tuple in a tuple in a tuple ... */
    size_t len = 1;
    deep[0] = 't';
    for (unsigned depth = 1; depth <= 400; depth++) {
        size_t n = len;
        memmove(deep + 5, deep, n);
        memcpy(deep, (char[]){'t', (char)n, (char)(n >> 8), 0, 0}, 5);
        len += 5;
        int rc = ddict_key_parse(at_end(deep, len), len, &key);
        ck_assert_int_eq(rc, depth < 100 ? 0 : -EBADMSG);
    }
}
END_TEST

static struct ddict_view view_of(const void *data, size_t len, unsigned tag) {
    return (struct ddict_view){.data = at_end(data, len), .len = len, .tag = tag};
}

START_TEST(text_and_numbers_come_back) {
    struct dict x;
    ddict_t *d = dict_begin(&x, 2, 2, 64 * MIB);
    static const int64_t numbers[] = {0, 1, -1, INT64_MAX, INT64_MIN};
    static const double floats[] = {0.0, -0.5, 1e300};
    struct ddict_value v;
    struct ddict_view w;
    int64_t n = 0;
    double f = 0;
    for (size_t i = 0; i < 5; i++) {
        ddict_value_int(&v, numbers[i]);
        ok(ddict_putv(d, "n", 1, v.iov, v.n, v.flags, -1));
        ok(ddict_view(d, "n", 1, &w, 0, -1));
        ok(ddict_read_int(&w, &n));
        ok(ddict_read_float(&w, &f));
        ck_assert(n == numbers[i] && f == (double)n);
        ddict_release(&w);
    }
    for (size_t i = 0; i < 3; i++) {
        ddict_value_float(&v, floats[i]);
        ok(ddict_putv(d, "f", 1, v.iov, v.n, v.flags, -1));
        ok(ddict_view(d, "f", 1, &w, 0, -1));
        ok(ddict_read_float(&w, &f));
        ck_assert(f == floats[i]);
        fails(-EBADMSG, ddict_read_int(&w, &n));
        ddict_release(&w);
    }
    const char *text;
    const void *data;
    size_t len;
    ddict_value_str(&v, "word", 4);
    ck_assert_int_eq(v.n, 1);
    ok(ddict_putv(d, "s", 1, v.iov, v.n, v.flags | DDICT_NEW, -1));
    ok(ddict_view(d, "s", 1, &w, 0, -1));
    ok(ddict_read_str(&w, &text, &len));
    ck_assert(len == 4 && memcmp(text, "word", 4) == 0);
    fails(-EBADMSG, ddict_read_bytes(&w, &data, &len));
    fails(-EBADMSG, ddict_read_float(&w, &f));
    ddict_release(&w);
    ddict_value_bytes(&v, "", 0);
    ok(ddict_putv(d, "b", 1, v.iov, v.n, v.flags, -1));
    ok(ddict_view(d, "b", 1, &w, 0, -1));
    ok(ddict_read_bytes(&w, &data, &len));
    ck_assert_uint_eq(len, 0);
    fails(-EBADMSG, ddict_read_str(&w, &text, &len));
    ddict_release(&w);
    dict_end(&x, d);
}
END_TEST

START_TEST(bytes_that_are_no_number_are_refused) {
    static const char *const bad[] = {"", "-", "-0", "01", "9223372036854775808", "1.5", "0x1"};
    int64_t n;
    double f;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ddict_view v = view_of(bad[i], strlen(bad[i]), DDICT_VALUE_INT);
        fails(-EBADMSG, ddict_read_int(&v, &n));
        fails(-EBADMSG, ddict_read_float(&v, &f));
    }
    struct ddict_view v = view_of("1234567", 7, DDICT_VALUE_FLOAT);
    fails(-EBADMSG, ddict_read_float(&v, &f));
    int truth = 7;
    v = view_of("\2", 1, DDICT_VALUE_BOOL);
    fails(-EBADMSG, ddict_read_bool(&v, &truth));
    v = view_of("\1\0", 2, DDICT_VALUE_BOOL);
    fails(-EBADMSG, ddict_read_int(&v, &n));
    v = view_of("2", 1, DDICT_VALUE_INT);
    fails(-EBADMSG, ddict_read_bool(&v, &truth));
    v = view_of("\1", 1, DDICT_VALUE_STR);
    fails(-EBADMSG, ddict_read_bool(&v, &truth));
    ck_assert_int_eq(truth, 7);
    v = view_of("1", 1, 200);
    fails(-EBADMSG, ddict_read_int(&v, &n));
    ck_assert_ptr_nonnull(strstr(ddict_errmsg(), "tag 200"));
}
END_TEST

START_TEST(an_array_is_read_where_it_lies) {
    struct dict x;
    ddict_t *d = dict_begin(&x, 2, 4, 64 * MIB);
    static double put[105];
    for (size_t i = 0; i < 105; i++)
        put[i] = (double)i / 4;
    size_t shape[DDICT_DIMS_MAX] = {5, 7, 3};
    struct ddict_array a;
    struct ddict_view v;
    for (unsigned m = 0; m < 4; m++) { /* of both nodes */
        char key[32];
        size_t klen = key_of(d, m, 0, key, sizeof key);
        ok(ddict_put_array(d, key, klen, DDICT_FLOAT64, 3, shape, put, 0, -1));
        ok(ddict_view_array(d, key, klen, DDICT_FLOAT64, &a, &v, 0, -1));
        ck_assert(a.dims == 3 && a.shape[0] == 5 && a.shape[1] == 7 && a.shape[2] == 3);
        ck_assert(a.count == 105 && a.item == 8 && a.bytes == sizeof put && !a.torch);
        ck_assert_str_eq(a.type, "<f8");
        ck_assert_ptr_eq(a.data, (const char *)v.data + 64); /* in place */
        ck_assert(memcmp(a.data, put, sizeof put) == 0);
        ddict_release(&v);
        fails(-EBADMSG, ddict_view_array(d, key, klen, DDICT_FLOAT32, &a, &v, 0, -1));
        fails(DDICT_EEXISTS,
              ddict_put_array(d, key, klen, DDICT_INT8, 1, shape, put, DDICT_NEW, -1));
        fails(-EINVAL, ddict_put_array(d, key, klen, DDICT_INT8, 1, shape, put, DDICT_TAG(1), -1));
    }
    ok(ddict_put(d, "b", 1, "b", 1, 0, -1));
    fails(-EBADMSG, ddict_view_array(d, "b", 1, NULL, &a, &v, 0, -1));
    fails(DDICT_ENOKEY, ddict_view_array(d, "none", 4, NULL, &a, &v, 0, -1));
    fails(-ETIMEDOUT, ddict_view_array(d, "none", 4, NULL, &a, &v, DDICT_WAIT, 0));
    ok(ddict_put_array(d, "0", 1, DDICT_INT32, 0, NULL, &(int){42}, 0, -1));
    ok(ddict_view_array(d, "0", 1, DDICT_INT32, &a, &v, 0, -1));
    ck_assert(a.dims == 0 && a.count == 1 && *(const int *)a.data == 42);
    ddict_release(&v);
    shape[1] = 0;
    ok(ddict_put_array(d, "e", 1, DDICT_INT32, 2, shape, NULL, 0, -1));
    ok(ddict_view_array(d, "e", 1, NULL, &a, &v, 0, -1));
    ck_assert(a.dims == 2 && a.count == 0 && a.bytes == 0 && a.shape[0] == 5);
    ddict_release(&v);
    for (unsigned i = 0; i < DDICT_DIMS_MAX; i++)
        shape[i] = 1;
    ok(ddict_put_array(d, "32", 2, DDICT_UINT8, DDICT_DIMS_MAX, shape, "x", 0, -1));
    ok(ddict_view_array(d, "32", 2, DDICT_UINT8, &a, &v, 0, -1));
    ck_assert(a.dims == 32 && a.count == 1 && *(const char *)a.data == 'x');
    ddict_release(&v); /* a second release is ignored */
    ddict_release(&v);
    ck_assert_uint_eq(dict_retired(d), 0); /* no view is left */
    dict_end(&x, d);
}
END_TEST

START_TEST(what_is_no_array_is_not_put) {
    struct ddict_value v;
    size_t shape[2] = {SIZE_MAX / 2, 3};
    static const char *const bad[] = {"",
                                      "f4",
                                      "<f",
                                      "<O8",
                                      "<f4,O",
                                      "=f4",
                                      "<f 4",
                                      "<f4[ns]",
                                      "<M8[n s]",
                                      "<M8[",
                                      "<M8n",
                                      "<bf4",
                                      "<f4444444444444444444444444"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fails(-EINVAL, ddict_type_size(bad[i]));
        fails(-EINVAL, ddict_value_array(&v, bad[i], 0, NULL, "x"));
    }
    static const struct {
        const char *type;
        ssize_t size;
    } good[] = {{"|b1", 1},   {"<c16", 16}, {"<bf2", 2}, {"<M8[25s]", 8},
                {"|S12", 12}, {"<U3", 12},  {"|V0", 0},  {">f8", 8}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_int_eq(ddict_type_size(good[i].type), good[i].size);
    fails(-EINVAL, ddict_value_array(&v, "<f8", 33, shape, NULL));
    fails(DDICT_EVALSIZE, ddict_value_array(&v, "<f8", 1, shape, NULL));
    fails(DDICT_EVALSIZE, ddict_value_array(&v, "|V0", 2, shape, NULL));
}
END_TEST

/* A head with one byte changed, at the end of memory, with `more` bytes behind it. */
static int changed_is_read(size_t at, unsigned char to, size_t more) {
    static unsigned char value[64 + 16];
    struct ddict_array a;
    struct ddict_value v;
    size_t shape[1] = {2};
    ok(ddict_value_array(&v, DDICT_INT64, 1, shape, value));
    memcpy(value, v.iov[0].iov_base, 64);
    value[at] = to;
    struct ddict_view w = view_of(value, 64 + more, DDICT_VALUE_ARRAY);
    return ddict_read_array(&w, NULL, &a);
}

START_TEST(a_hostile_array_is_refused) {
    ok(changed_is_read(63, 0, 16));
    static const struct {
        size_t at;
        unsigned char to;
    } bad[] = {{0, 2},    {1, 2},   {2, 0},   {2, 2},    {2, 33},   {2, 255},
               {3, 1},    {4, 'x'}, {5, 'O'}, {6, '4'},  {7, '9'},  {8, 'x'},
               {15, 'x'}, {16, 1},  {16, 3},  {23, 255}, {23, 0x80}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        fails(-EBADMSG, changed_is_read(bad[i].at, bad[i].to, 16));
    fails(-EBADMSG, changed_is_read(63, 0, 15));
    fails(-EBADMSG, changed_is_read(63, 0, 0));
    struct ddict_array a;
    for (size_t len = 0; len < 64; len++) { /* cut off */
        unsigned char head[64] = {1, 0, 1, 0, '|', 'b', '1'};
        struct ddict_view w = view_of(head, len, DDICT_VALUE_ARRAY);
        fails(-EBADMSG, ddict_read_array(&w, NULL, &a));
    }
    for (unsigned dims = 0; dims < 256; dims++) { /* one element, however many dimensions */
        unsigned char value[SPAN] = {1, 0, (unsigned char)dims, 0, '|', 'b', '1'};
        for (unsigned i = 0; i < dims; i++)
            value[16 + 8 * i] = 1;
        size_t len = (16 + 8 * dims + 63) / 64 * 64 + 1;
        struct ddict_view w = view_of(value, len, DDICT_VALUE_ARRAY);
        ck_assert_int_eq(ddict_read_array(&w, NULL, &a), dims <= 32 ? 0 : -EBADMSG);
    }
    char memory[128 + 8] __attribute__((aligned(16))); /* elements at an odd address */
    struct ddict_value v;
    size_t shape[1] = {1};
    ok(ddict_value_array(&v, DDICT_INT64, 1, shape, "12345678"));
    memcpy(memory + 1, v.iov[0].iov_base, 64);
    struct ddict_view w = {.data = memory + 1, .len = 72, .tag = DDICT_VALUE_ARRAY};
    fails(-EBADMSG, ddict_read_array(&w, NULL, &a));
    memcpy(memory + 1 + 4, "|S8\0", 4); /* text may lie anywhere */
    ok(ddict_read_array(&w, "|S8", &a));
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        each_key_has_its_one_form,
        a_key_that_does_not_fit_is_refused,
        a_key_is_parsed_into_what_it_was_made_of,
        bytes_that_are_no_key_are_refused,
        text_and_numbers_come_back,
        bytes_that_are_no_number_are_refused,
        an_array_is_read_where_it_lies,
        what_is_no_array_is_not_put,
        a_hostile_array_is_refused,
    };
    return tests_main("client_values", argc, argv, tests, sizeof tests / sizeof *tests);
}

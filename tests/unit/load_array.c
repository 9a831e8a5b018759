/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_array.c - headers of .npy: a shape is the tuple that Python writes, of which anything else is
 * refused with a sentence. The values are those of tests/local/load.py.
 */
#include "unit.h"

#include <errno.h>
#include <load/format/array.h>
#include <stdio.h>
#include <string.h>

/* --- what array.c gives its values to; none is given here --- */
int sink_add(struct sink *s, const void *bytes, size_t len) {
    return -EINVAL;
}
int sink_end(struct sink *s, unsigned tag) {
    return -EINVAL;
}
void *sink_room(struct sink *s, size_t len, int *rc) {
    *rc = -EINVAL;
    return NULL;
}

static struct array a;
static char why[200];

static int shape_read(const char *shape) {
    uint8_t file[512] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1};
    int n = snprintf((char *)file + 10, sizeof file - 10,
                     "{'descr': '<i4', 'fortran_order': False, 'shape': %s, }\n", shape);
    ck_assert(n > 0 && (size_t)n < sizeof file - 10);
    file[8] = (uint8_t)n;
    file[9] = (uint8_t)(n >> 8);
    *why = 0;
    int rc = npy_header(&a, file, sizeof file, why, sizeof why);
    ck_assert(rc == n + 10 || (rc == -EINVAL && *why));
    return rc < 0 ? rc : 0;
}

START_TEST(a_tuple_of_python_is_a_shape) {
    ck_assert_int_eq(shape_read("(3, 4)"), 0);
    ck_assert(a.ndim == 2 && a.shape[0] == 3 && a.shape[1] == 4);
    ck_assert_int_eq(shape_read("(3,)"), 0);
    ck_assert(a.ndim == 1 && a.shape[0] == 3);
    ck_assert_int_eq(shape_read("()"), 0);
    ck_assert(a.ndim == 0 && a.records == 1);
    ck_assert_int_eq(shape_read("(3L ,\t4L , )"), 0); /* Python 2 wrote long ones so */
    ck_assert(a.ndim == 2 && a.shape[0] == 3 && a.shape[1] == 4);
}
END_TEST

START_TEST(anything_else_is_refused) {
    static const char *const bad[] = {"(3 4)", "(3\t4)", "(3L4)",   "(3L 4)", "(,3)",
                                      "(,)",   "(3,,4)", "(3, 4",   "3, 4",   "[3, 4]",
                                      "(3;4)", "(3.4)",  "(-3, 4)", "(a, 4)", "(3, 4LL)"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(shape_read(bad[i]) == -EINVAL, "%s is taken", bad[i]);
        ck_assert_str_eq(why, "its shape cannot be read");
    }
}
END_TEST

UNIT_MAIN("load_array", a_tuple_of_python_is_a_shape, anything_else_is_refused)

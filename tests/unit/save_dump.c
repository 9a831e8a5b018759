/* SPDX-License-Identifier: Apache-2.0 */
/* save_dump.c - parts of a saved dictionary: what was written is read, and nothing that is damaged.
 * */
#include "unit.h"
#include <base/error.h>

#include <errno.h>
#include <fcntl.h>
#include <save/dump.h>
#include <save/dump_in.h>
#include <save/dump_out.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[140], path[160];
static const uint8_t id[DUMP_ID] = "0123456789abcde";

static void setup(void) {
    snprintf(folder, sizeof folder, "%s/ddict-dump.XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/0-0.part", folder);
}

static void teardown(void) {
    unlink(path);
    rmdir(folder);
}

static size_t size_of(unsigned i) {
    return i % 97 == 0 ? 5000000u + i : i % 11 == 0 ? 0 : (i * 7919u) % 3000u;
}
static uint8_t byte_of(unsigned i, size_t at) {
    return (uint8_t)(i * 31 + at * 7 + (at >> 8));
}

static uint8_t *value_of(unsigned i) {
    uint8_t *v = malloc(size_of(i) + 1);
    for (size_t k = 0; k < size_of(i); k++)
        v[k] = byte_of(i, k);
    return v;
}

static struct dump_sum written(unsigned n) {
    struct dump_out o;
    struct dump_sum sum;
    ck_assert_int_eq(dump_create(&o, path, id, 0, 0), 0);
    for (unsigned i = 0; i < n; i++) {
        char key[80];
        size_t klen = (size_t)snprintf(key, sizeof key, "key-%0*u", (int)(i % 40 + 1), i);
        uint8_t *v = value_of(i);
        ck_assert_int_eq(dump_add(&o, key, klen, v, size_of(i), i % 8), 0);
        free(v);
    }
    ck_assert_int_eq(dump_finish(&o, &sum), 0);
    ck_assert_uint_eq(sum.items, n);
    return sum;
}

/* Items read, or the negative code. */
static int read_all(const struct dump_sum *want, int max, bool compare) {
    struct dump_in in;
    struct dump_item item[64];
    unsigned i = 0;
    int rc = dump_open(&in, path, id, want);
    if (rc < 0)
        return rc;
    while ((rc = dump_next(&in, item, max)) > 0)
        for (int k = 0; k < rc; k++, i++) {
            char key[80];
            size_t klen = (size_t)snprintf(key, sizeof key, "key-%0*u", (int)(i % 40 + 1), i);
            if (!compare)
                continue;
            uint8_t *v = value_of(i);
            ck_assert_uint_eq(item[k].klen, klen);
            ck_assert_int_eq(memcmp(item[k].key, key, klen), 0);
            ck_assert_uint_eq(item[k].vlen, size_of(i));
            ck_assert_int_eq(memcmp(item[k].val, v, size_of(i)), 0);
            ck_assert_uint_eq(item[k].tag, i % 8);
            free(v);
        }
    dump_close(&in);
    return rc < 0 ? rc : (int)i;
}

START_TEST(items_come_back_as_they_were_written) {
    struct dump_sum sum = written(500);
    ck_assert_int_eq(read_all(&sum, 1, true), 500);
    ck_assert_int_eq(read_all(&sum, 64, true), 500);
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq((uint64_t)st.st_size, sum.size);
}
END_TEST

START_TEST(a_part_may_be_empty) {
    struct dump_sum sum = written(0);
    ck_assert_int_eq(read_all(&sum, 64, true), 0);
}
END_TEST

START_TEST(no_flipped_bit_gets_through) {
    struct dump_sum sum = written(40);
    int fd = open(path, O_RDWR);
    unsigned seed = 4711;
    for (int i = 0; i < 400; i++) {
        seed = seed * 1103515245 + 12345;
        off_t at = i < 200 ? (off_t)(seed % 4096) : (off_t)(sum.size - 1 - seed % 4096);
        uint8_t was, is;
        ck_assert_int_eq(pread(fd, &was, 1, at), 1);
        is = was ^ (uint8_t)(1u << (i % 8));
        ck_assert_int_eq(pwrite(fd, &is, 1, at), 1);
        int rc = read_all(&sum, 64, false);
        /* zeros that nobody reads: after the header's id, between items, in the end */
        if (rc >= 0) {
            ck_assert_msg(was == 0, "byte %lld was 0x%02x", (long long)at, was);
            ck_assert_int_eq(rc, 40);
        } else {
            ck_assert_int_eq(rc, -EBADMSG);
            ck_assert_msg(strstr(dd_errmsg(), path) != NULL, "%s", dd_errmsg());
        }
        ck_assert_int_eq(pwrite(fd, &was, 1, at), 1);
    }
    close(fd);
    ck_assert_int_eq(read_all(&sum, 64, true), 40);
}
END_TEST

START_TEST(a_part_of_another_length_save_or_manifest_is_refused) {
    struct dump_sum sum = written(40), other = sum;
    struct dump_in in;
    uint8_t another[DUMP_ID] = "another";
    ck_assert_int_eq(dump_open(&in, path, another, &sum), -EBADMSG);
    other.sum++;
    ck_assert_int_eq(read_all(&other, 64, false), -EBADMSG);
    ck_assert_int_eq(truncate(path, (off_t)sum.size - 1), 0);
    ck_assert_int_eq(read_all(&sum, 64, false), -EBADMSG);
    other = sum;
    /* also a manifest that agrees */
    for (uint64_t size = 0; size < sum.size; size += 1 + size / 3) {
        ck_assert_int_eq(truncate(path, (off_t)size), 0);
        other.size = size;
        ck_assert_int_eq(read_all(&other, 64, false), -EBADMSG);
    }
}
END_TEST

START_TEST(a_part_is_never_written_over_and_removed_when_abandoned) {
    struct dump_out o;
    ck_assert_int_eq(dump_create(&o, path, id, 0, 0), 0);
    struct dump_out second;
    ck_assert_int_eq(dump_create(&second, path, id, 0, 0), -EEXIST);
    dump_abandon(&o);
    ck_assert_int_eq(access(path, F_OK), -1);
    ck_assert_int_eq(dump_create(&o, "/nonexistent/0-0.part", id, 0, 0), -ENOENT);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "/nonexistent/0-0.part"));
}
END_TEST

START_TEST(a_full_disk_is_an_error_that_names_the_file) {
    struct dump_out o;
    struct dump_sum sum;
    static uint8_t value[3 << 20];
    int rc = 0;
    if (symlink("/dev/full", path) < 0)
        ck_abort();
    ck_assert_int_eq(dump_create(&o, path, id, 0, 0), -EEXIST); /* through a link neither */
    unlink(path);
    ck_assert_int_eq(dump_create(&o, path, id, 0, 0), 0);
    int full = open("/dev/full", O_WRONLY);
    ck_assert_int_ge(dup2(full, o.fd), 0);
    close(full);
    for (int i = 0; i < 4 && rc == 0; i++)
        rc = dump_add(&o, "k", 1, value, sizeof value, 0);
    ck_assert_int_eq(rc, -ENOSPC);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), path));
    ck_assert_int_lt(dump_finish(&o, &sum), 0);
}
END_TEST

UNIT_MAIN_WITH("save_dump", setup, teardown, items_come_back_as_they_were_written,
               a_part_may_be_empty, no_flipped_bit_gets_through,
               a_part_of_another_length_save_or_manifest_is_refused,
               a_part_is_never_written_over_and_removed_when_abandoned,
               a_full_disk_is_an_error_that_names_the_file)

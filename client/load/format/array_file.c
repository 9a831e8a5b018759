/* SPDX-License-Identifier: Apache-2.0 */
/* array_file.c - a file that is one array behind a header (IDX, .npy): each entry of its first
 * dimension is a record. */
#include "array.h"
#include "input.h"
#include <base/error.h>

#include <errno.h>
#include <load/load.h>
#include <load/plan.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORD_LEAST 64u /* smallest size of an item, in bytes */

int array_units(struct load_plan *p, const struct input *in, const struct array *a) {
    plan_array(p, a->dtype, a->shape + 1, a->ndim > 0 ? a->ndim - 1 : 0);
    uint64_t at = plan_number(p, a->records),
             each = a->record_bytes > 0 ? LOAD_UNIT_BYTES / a->record_bytes : LOAD_UNIT_ITEMS;
    int64_t value = (int64_t)array_value_bytes(a, false);
    int rc = 0;
    /* checked before the units are made: of records without bytes a header may claim 2^63 */
    if (a->records > the_load.info.total_bytes / RECORD_LEAST)
        return dd_error(DDICT_EFULL,
                        "%s: its header says %llu records, and the dictionary cannot hold so many",
                        in->path, (unsigned long long)a->records);
    each = in->compressed           ? a->records
           : each > LOAD_UNIT_ITEMS ? LOAD_UNIT_ITEMS
           : each == 0              ? 1
                                    : each;
    for (uint64_t done = 0, n; rc == 0 && done < a->records; done += n) {
        n = a->records - done < each ? a->records - done : each;
        struct unit_facts f = {.read = in->compressed ? in->size : n * a->record_bytes,
                               .items = (int64_t)n,
                               .bytes = bytes_times(n, value),
                               .largest = value};
        struct pack work = {0};
        pack_u64(&work, at + done);
        pack_u64(&work, done);
        pack_u64(&work, n);
        rc = work.bad         ? dd_error(-ENOMEM, "out of memory")
             : load_stopped() ? -ECANCELED
                              : plan_unit(p, &f, work.data, work.len);
        pack_free(&work);
    }
    return rc;
}

/* Read record i of an array in Fortran order, whose elements are scattered over the file. */
static int fortran_read(const struct input *in, const struct array *a, uint64_t begin, uint64_t i,
                        uint8_t *out) {
    uint64_t n = a->record_bytes / a->item, index[ARRAY_DIMS] = {0};
    for (uint64_t k = 0; k < n; k++) {
        uint64_t at = 0, stride = a->shape[0];
        for (unsigned d = 1; d < a->ndim; stride *= a->shape[d], d++)
            at += index[d] * stride;
        if (pread(in->fd, out + k * a->item, a->item, (off_t)(begin + (at + i) * a->item)) !=
            (ssize_t)a->item)
            return dd_error(-ENODATA, "%s: it cannot be read to its end", in->path);
        for (unsigned d = a->ndim; d-- > 1 && ++index[d] == a->shape[d];)
            index[d] = 0;
    }
    return 0;
}

int array_unit_read(struct sink *s, const char *text, const void *work, size_t len,
                    array_header *header) {
    struct unpack u = {.at = work, .left = len};
    uint64_t number = unpack_u64(&u), first = unpack_u64(&u), n = unpack_u64(&u), told, begin = 0;
    struct input in;
    struct array a;
    int rc = input_open(&in, text, 0, UINT64_MAX);
    if (rc == 0)
        rc = header(&in, &a);
    if (rc > 0 && (first > a.records || n > a.records - first))
        rc = dd_error(-ENODATA, "%s: it changed while it was read", text);
    if (rc > 0 && a.record_bytes > the_load.manager_bytes)
        rc = dd_error(DDICT_EVALSIZE, "%s: a record of %llu bytes is more than a manager can hold",
                      text, (unsigned long long)a.record_bytes);
    uint8_t *bytes = rc > 0 ? malloc(a.record_bytes + 8) : NULL;
    if (rc > 0 && !bytes)
        rc = dd_error(-ENOMEM, "out of memory");
    if (rc > 0)
        begin = (uint64_t)rc;
    if (rc > 0 && !in.compressed)
        in.at = begin + first * a.record_bytes;
    told = !in.compressed ? in.at : 0;
    for (uint64_t i = 0; rc >= 0 && i < n; i++) {
        bool turned = a.fortran && a.ndim > 1;
        rc = turned ? fortran_read(&in, &a, begin, first + i, bytes)
                    : input_read_all(&in, bytes, a.record_bytes);
        if (rc == 0) {
            rc = sink_begin_number(
                s, number + i,
                array_value_bytes(&a, false) > 0 ? (int64_t)array_value_bytes(&a, false) : -1);
            if (rc == 1)
                rc = array_record(s, &a, bytes);
        }
        sink_advance(s, turned ? a.record_bytes : in.at - told);
        told = in.at;
    }
    if (rc >= 0 && in.compressed && input_read(&in, bytes, 1) != 0)
        rc = dd_error(-EBADMSG, "%s: more bytes than its header says, or it is damaged", text);
    free(bytes);
    input_close(&in);
    return rc < 0 ? rc : 0;
}

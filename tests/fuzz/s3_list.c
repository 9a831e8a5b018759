/* SPDX-License-Identifier: Apache-2.0 */
/* s3_list.c - a page of the list of a bucket, as a server sends it. */
#include "fuzz.h"
#include <base/error.h>

#include <errno.h>
#include <load/s3/s3_page.h>

static int object_take(void *arg, const struct s3_object *o) {
    size_t n = strlen(o->key);
    fuzz_must(n > 0 && n <= S3_KEY_MAX && strlen(o->etag) < 160 && o->size <= INT64_MAX);
    return ++*(unsigned *)arg > 50 ? -ECANCELED : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct s3_page p;
    unsigned n = 0;
    memset(&p, 0, sizeof p);
    p.data = (uint8_t *)(uintptr_t)data;
    p.len = size;
    p.each = object_take;
    p.arg = &n;
    int e = s3_page_parse(&p, "bucket");
    fuzz_must(e != 0 || !p.truncated || *p.token); /* or it would never end */
    fuzz_must(memchr(p.token, 0, sizeof p.token));
    fuzz_must(e != -EBADMSG || *dd_errmsg());
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* key.c - keys and arrays that other programs have stored, as `ddict ls` and `ddict get` show them,
 * and keys that a user types. */
#include "fuzz.h"

#include <common/key_text.h>
#include <common/npy.h>
#include <errno.h>
#include <stdbool.h>

/* One line of len bytes, nothing that a terminal obeys. */
static void shown_check(const struct bytes *b, size_t len) {
    fuzz_must(strlen((char *)b->data) == len);
    for (const uint8_t *p = b->data; *p; p++)
        fuzz_must(*p >= ' ' && *p != 127);
}

static void typed_take(const char *text, int (*make)(struct bytes *out, const char *text)) {
    struct bytes key = {0}, shown = {0};
    bool python;
    int e = make(&key, text);
    fuzz_must(e == 0 || e == -EINVAL);
    if (e == 0) {
        fuzz_must(key_show(&shown, key.data, key.len, &python) == 0);
        shown_check(&shown, shown.len);
    }
    bytes_free(&key);
    bytes_free(&shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    struct bytes out = {0};
    bool python;
    size_t elements = 0;
    fuzz_must(key_show(&out, data, size, &python) == 0);
    shown_check(&out, out.len);
    out.len = 0;
    if (npy_head(&out, data, size, &elements) == 0)
        fuzz_must(elements <= size);
    bytes_free(&out);
    out = (struct bytes){0};
    if (npy_show(&out, data, size) == 0)
        shown_check(&out, out.len - 1);
    bytes_free(&out);
    char *text = fuzz_text(&in, in.left);
    typed_take(text, key_of_str);
    typed_take(text, key_of_int);
    typed_take(text, key_of_literal);
    typed_take(text, key_of_raw);
    free(text);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key_text.h - keys for people. The Python binding's form of keys (doc/FORMAT.md) is shown as
 * Python would write it: 'a', b'\x00', 7, ('x', 3); other keys are shown as their bytes, what is
 * not printable as \xNN.
 */
#ifndef DDICT_COMMON_KEY_TEXT_H
#define DDICT_COMMON_KEY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    uint8_t *data;
    size_t len, cap;
};                                                            /* free with bytes_free() */
int bytes_add(struct bytes *b, const void *data, size_t len); /* 0 or -ENOMEM */
void bytes_free(struct bytes *b);

/* The text of a key, 0-terminated, into out (emptied first). *python (may be NULL): it has Python's
 * form. 0 or -ENOMEM. */
int key_show(struct bytes *out, const void *key, size_t len, bool *python);
/* The key of what a person typed; -EINVAL when it is not of that form, -ENOMEM. */
int key_of_str(struct bytes *out, const char *text);
int key_of_int(struct bytes *out, const char *text);
int key_of_literal(struct bytes *out, const char *text);
int key_of_raw(struct bytes *out, const char *text);

#endif

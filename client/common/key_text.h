/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key_text.h - keys as text. Keys in the Python binding's form (doc/FORMAT.md) are shown as Python
 * writes them: 'a', b'\x00', 7, ('x', 3); of other keys the bytes are shown, unprintable ones as
 * \xNN.
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

/* Write the text of a key, 0-terminated, to out, which is emptied first. *python (may be NULL): the
 * key has Python's form. 0 or -ENOMEM. */
int key_show(struct bytes *out, const void *key, size_t len, bool *python);
/* The key that the user typed as text. 0, -EINVAL if text has not that form, or -ENOMEM. */
int key_of_str(struct bytes *out, const char *text);
int key_of_int(struct bytes *out, const char *text);
int key_of_literal(struct bytes *out, const char *text);
int key_of_raw(struct bytes *out, const char *text);

#endif

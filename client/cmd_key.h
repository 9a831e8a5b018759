/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_key.h - keys on the command line: the forms of the Python binding (client/python/FORMAT), and raw bytes. */
#ifndef DDICT_CLIENT_CMD_KEY_H
#define DDICT_CLIENT_CMD_KEY_H

#include <stddef.h>
#include <stdio.h>
#include <ddict.h>

enum key_form { KEY_STR, KEY_INT, KEY_RAW };

/* Encode text into buf (DDICT_KEY_MAX bytes). Length, or 0 with *why set (no number, too long, empty raw key). */
size_t key_encode(enum key_form form, const char *text, char *buf, const char **why);
/* Print a key as Python would: 'a', b'a', 7, ('a', 7); what is no such form as raw text with \xNN. */
void key_print(FILE *out, const void *key, size_t len);
/* The text of a str key (not 0-terminated), or NULL when it is none. */
const char *key_text(const void *key, size_t len, size_t *text_len);

#endif

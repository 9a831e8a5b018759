/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - text from outside (names of files, members and keys; sentences of other nodes) is made
 * safe before it is shown on a terminal or becomes a part of a line. */
#ifndef DDICT_BASE_TEXT_H
#define DDICT_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the UTF-8 character at p, which is not ASCII, that is fit to print; else 0. */
size_t utf8_length(const uint8_t *p, size_t len);
/* In place: what is no printable character (newlines, escapes, DEL, C1, broken UTF-8) becomes '?',
 * byte by byte. Returns text. */
char *text_plain(char *text);

#endif

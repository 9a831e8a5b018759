/* SPDX-License-Identifier: Apache-2.0 */
/* text_json.h - a text as a JSON string. Names need not be UTF-8, but JSON is. */
#ifndef DDICT_LOAD_TEXT_JSON_H
#define DDICT_LOAD_TEXT_JSON_H

#include <stddef.h>

/* Bytes that are not UTF-8 become U+FFFD. The caller's; NULL without memory. */
struct json_t *text_json(const void *text, size_t len);

#endif

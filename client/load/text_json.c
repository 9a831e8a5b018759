/* SPDX-License-Identifier: Apache-2.0 */
/* text_json.c - a text as a JSON string, text_json.h */
#include "text_json.h"

#include "pack.h"

#include <jansson.h>

json_t *text_json(const void *bytes, size_t len) {
    const uint8_t *text = bytes;
    json_t *o = json_stringn(bytes, len);
    if (o)
        return o;
    struct pack p = {0};
    for (size_t i = 0; i < len; i++) {
        size_t n = text[i] < 0x80 ? 1 : text[i] >= 0xf0 ? 4 : text[i] >= 0xe0 ? 3 : 2;
        json_t *one = i + n <= len ? json_stringn((const char *)text + i, n) : NULL;
        if (one) {
            pack_bytes(&p, text + i, n);
            i += n - 1;
        } else {
            pack_bytes(&p, "\xef\xbf\xbd", 3);
        }
        json_decref(one);
    }
    o = json_stringn((const char *)p.data, p.len);
    pack_free(&p);
    return o;
}

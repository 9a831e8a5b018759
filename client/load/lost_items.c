/* SPDX-License-Identifier: Apache-2.0 */
/* lost_items.c - the items that a set lost, lost_items.h */
#include "lost_items.h"

#include "names.h"
#include "set.h"
#include <base/error.h>

#include <errno.h>

static int item_want(struct wanted *w, const char *key, size_t len, uint64_t size) {
    if (key_is_there(key, len))
        return 0;
    int rc = key_claim(key, len);
    return rc == 0 ? wanted_add(w, key, len, size) : rc < 0 ? rc : 0;
}

/* Items of a part. keys: NULL for a numbered set. */
static int part_want(const struct lost_set *l, struct wanted *w, int64_t part,
                     const struct ddict_view *keys, const struct ddict_view *sizes) {
    const char *prefix = json_string_value(json_object_get(l->head, "prefix"));
    if (!prefix)
        return dd_error(-EBADMSG, "its description cannot be read");
    struct unpack k = {.at = keys ? keys->data : NULL, .left = keys ? keys->len : 0},
                  s = {.at = sizes->data, .left = sizes->len};
    uint64_t first = (uint64_t)part * SET_PART, n = (uint64_t)head_int(l, "items");
    char text[NUMBER_KEY_CAP];
    int rc = 0;
    for (uint64_t i = first; i < n && i < first + SET_PART && !k.bad && !s.bad && rc == 0; i++) {
        size_t len = 0;
        const char *key = text;
        if (keys)
            key = unpack_text(&k, &len);
        else
            len = number_key(text, prefix, i);
        uint64_t size = head_has_sizes(l) ? unpack_u64(&s) : 0;
        if (len > 0 && key_began_anew(key, len))
            rc = item_want(w, key, len, size);
    }
    return k.bad || s.bad ? dd_error(-EBADMSG, "its description cannot be read") : rc;
}

static int items_want(const struct lost_set *l, struct wanted *w) {
    int rc = 0;
    for (int64_t p = 0; p < head_int(l, "parts") && rc >= 0; p++) {
        struct ddict_view keys = {0}, sizes = {0};
        bool numbered = head_is_true(l, "numbered");
        rc = numbered ? 1 : lost_piece_view(l->name, "keys", p, &keys);
        if (rc == 1 && head_has_sizes(l))
            rc = lost_piece_view(l->name, "sizes", p, &sizes);
        if (rc == 1)
            rc = part_want(l, w, p, numbered ? NULL : &keys, &sizes);
        else if (rc == 0)
            rc = dd_error(-ENODATA, "a part of its description is gone");
        ddict_release(&keys);
        ddict_release(&sizes);
    }
    return rc < 0 ? rc : 0;
}

int items_claim(struct lost_set *l, struct wanted *w) {
    int rc = l->head ? items_want(l, w) : 0;
    if (rc < 0)
        lost_set_failed(l, dd_errmsg());
    else if (l->is_final && l->is_whole && wanted_count(w) == 0)
        l->is_final = false, l->why[0] = 0; /* it need not be read: it lost nothing */
    return l->why[0] == 0 && wanted_count(w) > 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "persist_text.h"

#include "size.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int word_take(struct persist_text *p, const char *word, size_t len) {
    char number[24];
    uint64_t *to = strncmp(word, "freq=", 5) == 0    ? &p->freq
                   : strncmp(word, "count=", 6) == 0 ? &p->count
                                                     : NULL;
    if (len == 9 && memcmp(word, "read-only", 9) == 0) {
        p->read_only = true;
        return 0;
    }
    if (!to)
        return -EINVAL;
    size_t head = (size_t)(strchr(word, '=') - word) + 1;
    if (len < head || len - head >= sizeof number)
        return -EINVAL;
    memcpy(number, word + head, len - head);
    number[len - head] = 0;
    return count_parse(number, 1, INT64_MAX, to) == 0 ? 0 : -EINVAL;
}

int persist_text_parse(const char *text, struct persist_text *p) {
    *p = (struct persist_text){.dir_len = strcspn(text, ",")};
    if (p->dir_len == 0 || strlen(text) >= PERSIST_TEXT)
        return -EINVAL;
    for (const char *word = text + p->dir_len; *word == ',';) {
        size_t len = strcspn(++word, ",");
        if (word_take(p, word, len) < 0)
            return -EINVAL;
        word += len;
    }
    return 0;
}

int persist_text_words(char *buf, size_t cap, const struct persist_text *p) {
    char freq[40] = "", count[40] = "";
    if (p->freq > 0)
        snprintf(freq, sizeof freq, ",freq=%" PRIu64, p->freq);
    if (p->count > 0)
        snprintf(count, sizeof count, ",count=%" PRIu64, p->count);
    return snprintf(buf, cap, "%s%s%s", freq, count, p->read_only ? ",read-only" : "");
}

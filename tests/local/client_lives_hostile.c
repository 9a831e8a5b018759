/* SPDX-License-Identifier: Apache-2.0 */
/* client_lives_hostile.c - write into the shared memory of this process, past libddict. */
#include "client_lives_hostile.h"

#include <store/layout.h>
#include <wire/lane.h>

#include <stdio.h>
#include <string.h>

struct mapping {
    uint8_t *start;
    size_t len;
};

static struct mapping mapping_find(const char *name) {
    char line[512];
    unsigned long from, to, at;
    struct mapping found = {NULL, 0};
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (!strstr(line, name) || sscanf(line, "%lx-%lx %*s %lx", &from, &to, &at) != 3)
            continue;
        if (at == 0)
            found.start = (uint8_t *)from;
        found.len = at + (to - from); /* in parts, with huge pages */
    }
    if (f)
        fclose(f);
    return found;
}

/* Offset of the item, or 0. */
static uint64_t item_find(const struct mapping *arena, char key, const void *value, size_t len) {
    uint64_t most = sizeof(struct item) + 1 + UINT8_MAX; /* bytes before the value */
    for (uint64_t off = 16; off + most + len <= arena->len; off += 16) {
        const struct item *it = (const void *)(arena->start + off);
        if (it->key_len == 1 && it->key[0] == (uint8_t)key && it->val_len == len &&
            memcmp(item_value(it), value, len) == 0)
            return off;
    }
    return 0;
}

bool answer_forge(char key, const void *value, size_t len) {
    struct mapping arena = mapping_find("memfd:ddict-arena"),
                   lane = mapping_find("memfd:ddict-lane");
    struct msg r = {.len = MSG_HEADER, .type = MSG_REPLY, .flags = MSGF_PLACED};
    if (!arena.start || !lane.start || !(r.aux = item_find(&arena, key, value, len)))
        return false;
    struct lane_page *p = (void *)lane.start;
    uint64_t tail = p->cq_tail;
    memcpy(lane.start + LANE_HEAD + DD_LANE_RING + tail % DD_LANE_RING, &r, sizeof r);
    __atomic_store_n(&p->cq_tail, tail + sizeof r, __ATOMIC_RELEASE);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* spill_error.c - what goes wrong with the spill, as sentences. */
#include "spill_error.h"

#include "spill_file.h"
#include "state.h"
#include <base/error.h>
#include <base/size.h>

#include <stdio.h>
#include <string.h>

int spill_no_space(struct store *s) {
    char dir[1024], want[24], have[24];
    return dd_error_kind(
        DDICT_EFULL, STORE_FULL_SPILL,
        "manager %u is full: %s more are wanted of %s for its spill, %s are free there (%s)",
        s->header->manager_id, size_format(want, sizeof want, s->spill.no_space_need),
        spill_folder(s->spill.fd, dir, sizeof dir),
        size_format(have, sizeof have, spill_free_bytes(s->spill.fd)),
        dd_strerror(s->spill.no_space));
}

int spill_silent(struct store *s) {
    char dir[1024];
    return dd_error_kind(
        DDICT_EFULL, STORE_FULL_SPILL,
        "manager %u is full: the disk of its spill in %s has done nothing for %u s",
        s->header->manager_id, spill_folder(s->spill.fd, dir, sizeof dir), DD_SPILL_WAIT_MS / 1000);
}

int spill_failed(struct store *s) {
    char dir[1024];
    return dd_error_kind(
        DDICT_EFULL, STORE_FULL_SPILL,
        "manager %u is full: its spill in %s takes no more values since its disk failed (%s)",
        s->header->manager_id, spill_folder(s->spill.fd, dir, sizeof dir),
        dd_strerror(s->spill.failed));
}

void spill_fail(struct store *s, int rc, const char *what) {
    char dir[600], size[24];
    struct spill *p = &s->spill;
    if (p->failed)
        return;
    p->failed = rc;
    snprintf(
        p->trouble, sizeof p->trouble,
        "the spill of manager %u in %s (%s) failed: %s: %s; it takes no more values, those on "
        "their way stay in memory; %llu values of %s are there and are checked when they are read",
        s->header->manager_id, spill_folder(s->spill.fd, dir, 300), spill_fs_name(p->fd), what,
        dd_strerror(rc), (unsigned long long)s->header->spill_items,
        size_format(size, sizeof size, s->header->spill_used));
}

const char *store_spill_trouble(struct store *s) {
    static char text[DD_ERRMSG_MAX];
    if (!s->spill.trouble[0])
        return NULL;
    memcpy(text, s->spill.trouble, sizeof text);
    s->spill.trouble[0] = 0;
    return text;
}

int spill_full(struct store *s, uint64_t need) {
    char dir[1024], text[4][24];
    const struct arena_header *h = s->header;
    return dd_error_kind(DDICT_EFULL, STORE_FULL_SPILL,
                         "manager %u is full: %s of %s of memory and %s of %s of its spill in %s "
                         "are in use, %llu more bytes are needed",
                         h->manager_id, size_format(text[0], sizeof *text, h->used_bytes),
                         size_format(text[1], sizeof *text, h->budget),
                         size_format(text[2], sizeof *text, h->spill_used),
                         size_format(text[3], sizeof *text, h->spill_len),
                         spill_folder(s->spill.fd, dir, sizeof dir), (unsigned long long)need);
}

int spill_no_room(struct store *s, uint64_t need) {
    if (s->spill.failed)
        return spill_failed(s);
    return s->spill.no_space ? spill_no_space(s) : spill_full(s, need);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill.c - the spill as the rest of the store sees it (LAYOUT 11): is memory full, make room, and
 * what is done between requests. Two threads (spill_worker.h) read and write its file, so only
 * requests for what is on the disk wait for a slow disk.
 *
 *     spill_file.c     the file in a folder of the node
 *     spill_batch.c    values that move there when other values need their memory
 *     spill_fill.c     a value that goes there at once
 *     spill_read.c     a value that is read for somebody else
 *     spill_away.c     the items of such values
 */
#include "spill.h"

#include "spill_batch.h"
#include "spill_error.h"
#include "spill_fill.h"
#include "spill_read.h"
#include "state.h"
#include <base/clock.h>
#include <base/error.h>

#include <errno.h>

/* --- memory was full --- */
bool spill_tight(const struct store *s, uint64_t bytes) {
    uint64_t some =
        s->header->budget / 64 < DD_RECLAIM_BYTES ? s->header->budget / 64 : DD_RECLAIM_BYTES;
    return s->spill.tight_until && bytes >= s->spill.tight_bytes &&
           s->spill.freed - s->spill.freed_then < some && clock_ns() < s->spill.tight_until;
}

void spill_tighten(struct store *s, uint64_t bytes) {
    s->spill.tight_bytes = bytes;
    s->spill.freed_then = s->spill.freed;
    s->spill.tight_until = clock_ns() + DD_SPILL_LOOK_MS * 1000000ull;
}

/* --- beginning --- */

void spill_open(struct store *s, int fd) {
    s->spill.fd = s->header->spill_len ? fd : -1;
}

int store_spill_serve(struct store *s, int wake_fd) {
    int rc;
    if (s->spill.fd < 0)
        return 0;
    if ((rc = worker_start(&s->spill.writer, wake_fd)) < 0)
        return rc;
    return worker_start(&s->spill.reader, wake_fd);
}

uint64_t store_progress(const struct store *s) {
    return s->spill.progress;
}

int spill_make_room(struct store *s, uint64_t bytes) {
    struct spill *p = &s->spill;
    bool waits = p->writer.runs;
    if (p->fd < 0 || p->moving || !s->settled || p->failed)
        return p->failed ? spill_failed(s) : DDICT_EFULL;
    if (waits && !p->batch && p->gave_up_until && p->gave_up_freed == p->freed &&
        clock_ns() < p->gave_up_until)
        return spill_no_room(s, bytes);
    p->gave_up_until = 0;
    if (batch_writes(s) && clock_ns() - p->since > DD_SPILL_WAIT_MS * 1000000ull)
        return spill_silent(s);
    if (p->want < bytes)
        p->want = bytes;
    if (!p->batch && !batch_begin(s))
        return dd_error(-ENOMEM, "no memory to move values to the spill");
    uint64_t before = s->header->spilled_bytes;
    batch_turn(s);
    if (waits)
        return p->batch || p->want ? -EAGAIN : p->gave_up_until ? spill_no_room(s, bytes) : 0;
    while (p->batch)
        batch_turn(s);
    p->want = 0;
    return !p->gave_up_until && s->header->spilled_bytes > before ? 0 : spill_no_room(s, bytes);
}

/* --- between requests --- */
bool spill_turn(struct store *s) {
    struct spill *p = &s->spill;
    if (p->fd < 0 || (!p->batch && !p->want && !p->fills && !p->readings))
        return false;
    fills_turn(s);
    readings_turn(s);
    return batch_turn(s);
}

void spill_close(struct store *s) {
    struct spill *p = &s->spill;
    worker_end(&p->writer);
    worker_end(&p->reader);
    fills_close(s);
    readings_close(s);
    table_free(&p->shared);
    batch_close(s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* spill_read.c - a value in the spill that is read for somebody else. */
#include "spill_read.h"

#include "lease.h"
#include "spill_away.h"
#include "spill_file.h"
#include "state.h"
#include <base/error.h>
#include <base/hash.h>
#include <base/io.h>
#include <base/page.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct store_reading {
    struct spill_job job; /* first */
    struct store_reading *next;
    struct store *s;
    uint64_t off, len; /* of the item; of the value */
    uint8_t *bytes;    /* [len], as far as it is read and wanted */
    uint64_t ready;    /* atomic, by the thread */
    uint64_t seen, upto, sent, given_up;
    bool over;
};

static void reading_run(struct spill_job *j) {
    struct store_reading *r = (struct store_reading *)(void *)j;
    const struct item_away *away = item_away(arena_at(r->s, r->off));
    const uint64_t from = away->off - r->s->header->file_size, one = 1;
    for (uint64_t at = r->ready, n; at < r->upto && j->rc == 0; at += n) {
        n = r->len - at < DD_SPILL_CHUNK ? r->len - at : DD_SPILL_CHUNK;
        ssize_t k = read_all_at(r->s->spill.fd, r->bytes + at, n, from + at);
        if (k != (ssize_t)n)
            j->rc = k < 0 ? (int)k : -EIO;
        if (j->rc == 0 && XXH3_64bits(r->bytes + at, n) != away->sum[at / DD_SPILL_CHUNK])
            j->rc = -EBADMSG;
        if (j->rc < 0)
            break;
        __atomic_store_n(&r->ready, at + n, __ATOMIC_RELEASE);
        if (at + n < r->upto && r->s->spill.reader.runs &&
            write(r->s->spill.reader.wake_fd, &one, sizeof one) < 0) {
        }
    }
}

static void reading_free(struct store_reading *r) {
    struct store_reading **at = &r->s->spill.readings;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    munmap(r->bytes, r->len);
    store_unpin(r->s, r->off);
    free(r);
}

static void reading_go(struct store_reading *r) {
    struct spill *p = &r->s->spill;
    uint64_t ready = __atomic_load_n(&r->ready, __ATOMIC_ACQUIRE);
    bool done = job_done(&r->job);
    if (done && r->job.rc < 0 && !p->bad_reads++ && !p->trouble[0]) {
        char dir[600];
        snprintf(p->trouble, sizeof p->trouble,
                 "a value of %llu bytes in the spill of manager %u in %s can not be read: %s; who "
                 "asks for it gets an error",
                 (unsigned long long)r->len, r->s->header->manager_id,
                 spill_folder(p->fd, dir, 300),
                 r->job.rc == -EBADMSG ? "its disk gave back other bytes than were written"
                                       : dd_strerror(r->job.rc));
    }
    if (ready != r->seen || (done && r->job.rc < 0))
        p->progress++;
    r->seen = ready;
    if (r->job.busy)
        return;
    uint64_t gone = r->sent & ~(page_size() - 1);
    if (gone > r->given_up) {
        madvise(r->bytes + r->given_up, gone - r->given_up, MADV_DONTNEED);
        r->given_up = gone;
    }
    uint64_t to = r->len - r->sent > DD_SPILL_AHEAD
                      ? (r->sent + DD_SPILL_AHEAD) & ~(uint64_t)(DD_SPILL_CHUNK - 1)
                      : r->len;
    if (r->job.rc < 0 || r->over || to <= ready)
        return;
    r->upto = to;
    r->job.run = reading_run;
    job_give(&p->reader, &r->job);
}

int store_read_begin(struct store *s, const struct store_ref *ref, uint64_t from,
                     struct store_reading **out, const uint8_t **data) {
    struct store_reading *r = calloc(1, sizeof *r);
    uint64_t len = item_len(ref->item);
    if (r && !(r->bytes = room_map(len))) {
        free(r);
        r = NULL;
    }
    if (!r)
        return dd_error(-ENOMEM, "no memory to read a value in the spill");
    if (store_pin(s, ref->off) < 0) { /* our own pin, until the last job is over */
        munmap(r->bytes, len);
        free(r);
        return -ENOMEM;
    }
    r->s = s;
    r->off = ref->off;
    r->len = len;
    r->sent = from;
    r->ready = r->seen = from & ~(uint64_t)(DD_SPILL_CHUNK - 1); /* a sum is of a whole chunk */
    r->given_up = r->ready;
    r->next = s->spill.readings;
    s->spill.readings = r;
    *out = r;
    *data = r->bytes;
    reading_go(r);
    return 0;
}

int64_t store_read_ready(const struct store_reading *r, uint64_t wanted) {
    uint64_t ready = __atomic_load_n(&r->ready, __ATOMIC_ACQUIRE);
    /* bytes that are good are sent before the error is told */
    return ready < wanted && !r->job.busy && r->job.rc < 0 ? -EIO : (int64_t)ready;
}

void store_read_sent(struct store_reading *r, uint64_t sent) {
    r->sent = sent;
    reading_go(r);
}

void store_read_end(struct store_reading *r) {
    r->over = true;
    if (!r->job.busy)
        reading_free(r);
}

void readings_turn(struct store *s) {
    for (struct store_reading *r = s->spill.readings, *next; r; r = next) {
        next = r->next;
        reading_go(r);
        if (r->over && !r->job.busy)
            reading_free(r);
    }
}

void readings_close(struct store *s) {
    struct spill *p = &s->spill;
    while (p->readings) {
        struct store_reading *r = p->readings;
        p->readings = r->next;
        munmap(r->bytes, r->len);
        free(r);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.c - find a value, with or without waiting for it.
 *
 * Reading a value of this node in place takes less time than releasing the GIL and taking it again,
 * and never waits; so it is tried first, with timeout 0 and with the GIL held. Everything else runs
 * without the GIL.
 */
#include "pyddict.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WAIT_SLICE_MS 200 /* interval between checks for Ctrl-C */
/* a manager is expected to answer within this time; if it does not, the wait goes on and ends as a
 * timeout */
#define ANSWER_MS 2000
/* if a slice takes longer by this, the process was stopped, which does not count as waiting
 * (ddict.h) */
#define SUSPEND_GAP_MS 2000
/* where the dictionary refills a call takes longer by what is read again: libddict's default, and the
 * first and longest time between checks for Ctrl-C. The longest is one in which a manager that is only
 * busy answers. */
#define REFILL_S       1800
#define REFILL_MS      1000
#define REFILL_MOST_MS 5000

double now_s(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now_ms(void) {
    return 1e3 * now_s();
}

bool key_is_local(const struct handle *h, const struct key *k) {
    return h->nodes == 1 || ddict_owner(h->d, k->data, k->len) % h->nodes == h->node_id;
}

/* This process holds as many views as it may: read into private memory. Called without the GIL. */
static int lookup_private(ddict_t *d, const struct key *k, struct found *f, int timeout_ms) {
    size_t cap = 4096, len = 0;
    int rc;

    for (;;) {
        f->priv = malloc(cap);
        if (!f->priv)
            return -ENOMEM;
        rc = ddict_get(d, k->data, k->len, f->priv, cap, &len, &f->v.tag, 0, timeout_ms);
        if (rc == 0) {
            f->v.data = f->priv;
            f->v.len = len;
            return 0;
        }
        free(f->priv);
        f->priv = NULL;
        if (rc != DDICT_ESMALL)
            return rc;
        cap = len; /* the value may have been replaced by a longer one: try again */
    }
}

/* -ETIMEDOUT: a manager has to be asked. */
static int lookup_here(struct handle *h, const struct key *k, struct found *f) {
    f->priv = NULL;
    if (key_is_local(h, k) || ddict_is_frozen(h->d) > 0)
        return ddict_view(h->d, k->data, k->len, &f->v, 0, 0);
    return -ETIMEDOUT;
}

static int lookup_there(struct handle *h, const struct key *k, struct found *f, bool copy,
                        int timeout_ms) {
    int rc;

    Py_BEGIN_ALLOW_THREADS rc = ddict_view(h->d, k->data, k->len, &f->v, 0, timeout_ms);
    if (rc == DDICT_EVIEWS && copy)
        rc = lookup_private(h->d, k, f, timeout_ms);
    Py_END_ALLOW_THREADS return rc;
}

int first_try_ms(const struct handle *h, int timeout_ms) {
    return h->refills && (timeout_ms < 0 || timeout_ms > REFILL_MS) ? REFILL_MS : timeout_ms;
}

int key_is_there(struct handle *h, const struct key *k, size_t *len, int timeout_ms, int gone_ms) {
    bool is_default = timeout_ms < 0 && !getenv("DDICT_TIMEOUT");
    double seconds = is_default ? REFILL_S : timeout_seconds(timeout_ms),
           until = now_ms() + 1e3 * seconds - gone_ms, left;
    char text[64];
    int rc;

    if (!h->refills) {
        Py_BEGIN_ALLOW_THREADS rc = ddict_contains(h->d, k->data, k->len, len, timeout_ms);
        Py_END_ALLOW_THREADS return rc;
    }
    for (int slice = REFILL_MS;; slice = slice < REFILL_MOST_MS ? 2 * slice : slice) {
        if (PyErr_CheckSignals() < 0)
            return 2;
        left = until - now_ms();
        left = left < 0 ? 0 : left < slice ? left + 0.999 : slice;
        Py_BEGIN_ALLOW_THREADS rc = ddict_contains(h->d, k->data, k->len, len, (int)left);
        Py_END_ALLOW_THREADS if (rc != -ETIMEDOUT) return rc;
        if (left < slice)
            break;
    }
    snprintf(text, sizeof text, "no answer within %.3g s", seconds);
    error_raise_text(rc, text);
    return 2;
}

int refill_wait(struct handle *h, const struct key *k) {
    int rc;

    if (!h->refills)
        return 0;
    h->busy++;
    rc = key_is_there(h, k, NULL, h->timeout_ms, 0);
    handle_end(h);
    return rc == 2 ? -1 : 0;
}

int lookup(struct handle *h, const struct key *k, struct found *f, bool copy, int timeout_ms) {
    int rc = lookup_here(h, k, f), first = first_try_ms(h, timeout_ms);

    if (rc != -ETIMEDOUT && !(rc == DDICT_EVIEWS && copy))
        return rc;
    h->busy++;
    rc = lookup_there(h, k, f, copy, first);
    if (rc == -ETIMEDOUT && first != timeout_ms) {
        rc = key_is_there(h, k, NULL, timeout_ms, first);
        rc = rc == 0   ? DDICT_ENOKEY
             : rc == 1 ? lookup_there(h, k, f, copy, timeout_ms)
             : rc == 2 ? 1
                       : rc;
    }
    handle_end(h);
    return rc;
}

void found_clear(struct found *f) {
    if (f->priv)
        free(f->priv);
    else
        ddict_release(&f->v);
}

/*
 * Wait one slice; *gone is the part of the waiting time that it used. Only the wait for the key is
 * cut into slices; the transfer of its value is not, because a value that takes longer than a slice
 * would never arrive.
 */
static int wait_slice(struct handle *h, const struct key *k, struct found *f, int ms, double *gone,
                      bool *silent) {
    double start = now_ms();
    int rc;

    Py_BEGIN_ALLOW_THREADS rc = ddict_view(h->d, k->data, k->len, &f->v, DDICT_WAIT, ms);
    *gone = now_ms() - start;
    if (*gone > ms + SUSPEND_GAP_MS)
        *gone = ms;
    if (rc == -ETIMEDOUT) {
        start = now_ms();
        rc = ddict_contains(h->d, k->data, k->len, NULL, ANSWER_MS);
        *gone += now_ms() - start > ANSWER_MS ? ANSWER_MS : now_ms() - start;
        *silent = rc == -ETIMEDOUT;
        if (rc == 1)
            rc = ddict_view(h->d, k->data, k->len, &f->v, 0, h->timeout_ms);
        else if (rc == 0 || rc == -ETIMEDOUT) /* or it waits for what is read again (ddict.h) */
            rc = DDICT_ENOKEY;
    }
    Py_END_ALLOW_THREADS return rc;
}

int lookup_wait(struct handle *h, const struct key *k, struct found *f, bool copy, double seconds) {
    double left = 1000 * seconds;
    bool silent = false;
    int rc;

    f->priv = NULL;
    if (h->refills && lookup_here(h, k, f) == 0) /* nobody has looked it up before */
        return 0;
    h->busy++;
    for (;;) {
        int ms = left < WAIT_SLICE_MS ? (int)(left + 0.999) : WAIT_SLICE_MS;
        double gone;
        rc = wait_slice(h, k, f, ms, &gone, &silent);
        if (!key_is_absent(rc))
            break;
        if (PyErr_CheckSignals() < 0) {
            rc = 1;
            break;
        }
        left -= gone;
        if (left <= 0) {
            rc = silent ? -ETIMEDOUT : rc;
            break;
        }
    }
    handle_end(h);
    if (rc == DDICT_EVIEWS && copy && h->refills) /* it is there */
        rc = handle_check(h) < 0 ? 1 : lookup(h, k, f, copy, h->timeout_ms);
    return rc;
}

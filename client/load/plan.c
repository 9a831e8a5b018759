/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - the units of a load. The leader makes them once, and they stay in the dictionary until
 * the load is complete, so that a continued load has the same units. */
#include "plan.h"

#include "load.h"
#include "state.h"
#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_VERSION 2u
/* least bytes of an item besides key and value, including the set's share */
#define ITEM_EXTRA 96u

int plan_unit(struct load_plan *p, const struct unit_facts *f, const void *work, size_t len) {
    if (VEC_ROOM(&p->unit, &p->unit_cap, p->units + 1, 64) < 0)
        return dd_error(-ENOMEM, "out of memory");
    struct pack *u = &p->unit[p->units++];
    memset(u, 0, sizeof *u);
    pack_u32(u, p->source);
    pack_u64(u, f->read);
    pack_u64(u, (uint64_t)f->items);
    pack_u64(u, (uint64_t)f->bytes);
    pack_bytes(u, work, len);
    p->read += f->read;
    p->items = p->items < 0 || f->items < 0 ? -1 : bytes_add(p->items, f->items);
    p->bytes = p->bytes < 0 || f->bytes < 0 ? -1 : bytes_add(p->bytes, f->bytes);
    if (f->bytes > 0)
        p->need = (uint64_t)bytes_add((int64_t)p->need, f->bytes);
    if (f->items > 0)
        p->need =
            (uint64_t)bytes_add((int64_t)p->need, bytes_times((uint64_t)f->items, ITEM_EXTRA));
    if (f->largest > p->largest)
        p->largest = f->largest;
    return u->bad ? dd_error(-ENOMEM, "out of memory") : 0;
}

uint64_t plan_number(struct load_plan *p, uint64_t count) {
    uint64_t first = p->number;
    p->number += count;
    return first;
}

void plan_array(struct load_plan *p, const char *dtype, const uint64_t *shape, unsigned ndim) {
    /* of an earlier source; the set has one dtype and shape only if all sources agree */
    if (p->number > 0)
        p->mixed |= !p->array || strcmp(p->dtype, dtype) != 0 || p->ndim != ndim ||
                    memcmp(p->shape, shape, ndim * sizeof *shape) != 0;
    p->array = !p->mixed;
    snprintf(p->dtype, sizeof p->dtype, "%s", dtype);
    p->ndim = ndim < 32 ? ndim : 32;
    memcpy(p->shape, shape, p->ndim * sizeof *shape);
}

int load_plan_labels(struct load_plan *p, int64_t *labels, uint64_t n) {
    free(p->labels);
    p->labels = labels;
    p->nlabels = n;
    return 0;
}

int plan_failed(struct load_plan *p, const char *name, size_t len, const char *fmt, ...) {
    char text[LOAD_ERROR_MAX], sentence[LOAD_ERROR_MAX + 512];
    const char *source = the_load.origins[p->source].text;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (name)
        snprintf(sentence, sizeof sentence, "%s: %.*s: %s", source, (int)(len < 400 ? len : 400),
                 name, text);
    else
        snprintf(sentence, sizeof sentence, "%s: %s", source, text);
    /* in a refill what follows could have other numbers */
    if (!the_load.o->skip || (the_load.wanted && strcmp(p->kind->name, "dir") != 0))
        return dd_error(-EBADMSG, "%s", sentence);
    pack_text(&p->notes, sentence, strlen(sentence));
    p->failures++;
    return 0;
}

int load_plan_make(struct load_plan *p) {
    memset(p, 0, sizeof *p);
    p->largest = -1;
    p->kind = the_load.origins[0].kind;
    for (p->source = 0; p->source < the_load.o->nsources; p->source++) {
        const struct origin *o = &the_load.origins[p->source];
        int rc = o->kind->plan(p, o->text);
        if (rc < 0)
            return rc;
        if (load_stopped())
            return -ECANCELED;
    }
    if (p->labels && p->nlabels != p->number)
        return dd_error(-EINVAL, "%llu labels for %llu records", (unsigned long long)p->nlabels,
                        (unsigned long long)p->number);
    return p->notes.bad ? dd_error(-ENOMEM, "out of memory") : 0;
}

int load_plan_store(const struct load_plan *p) {
    struct pack head = {0};
    int rc = 0;
    for (uint64_t n = 0; n < p->units && rc >= 0; n++) {
        if (n % 256 == 0 && load_stopped())
            rc = -ECANCELED;
        else
            rc = state_put(the_load.id, "unit", (int64_t)n, -1, p->unit[n].data, p->unit[n].len, 0);
    }
    pack_u32(&head, PLAN_VERSION);
    pack_u64(&head, p->units);
    pack_u64(&head, p->read);
    pack_u64(&head, p->number);
    pack_u64(&head, p->need);
    pack_u64(&head, p->failures);
    pack_u64(&head, (uint64_t)p->newest);
    pack_u64(&head, p->tops);
    pack_u64(&head, p->folders);
    pack_text(&head, p->notes.data, p->notes.len);
    pack_u32(&head, p->array);
    pack_text(&head, p->dtype, strlen(p->dtype));
    pack_u32(&head, p->ndim);
    for (unsigned i = 0; i < p->ndim; i++)
        pack_u64(&head, p->shape[i]);
    pack_u64(&head, p->labels ? p->nlabels : UINT64_MAX);
    for (uint64_t i = 0; p->labels && i < p->nlabels; i++)
        pack_u64(&head, (uint64_t)p->labels[i]);
    if (head.bad)
        rc = dd_error(-ENOMEM, "out of memory");
    if (rc >= 0)
        rc = state_put(the_load.id, "plan", -1, -1, head.data, head.len, 0);
    pack_free(&head);
    return rc;
}

int load_plan_fetch(struct load_plan *p) {
    uint8_t *value;
    size_t len, n;
    const char *text;
    memset(p, 0, sizeof *p);
    p->largest = p->items = p->bytes = -1;
    p->kind = the_load.origins[0].kind;
    int rc = state_get(the_load.id, "plan", -1, -1, &value, &len);
    if (rc < 0)
        return rc;
    struct unpack u = {.at = value, .left = len};
    bool version = unpack_u32(&u) == PLAN_VERSION;
    p->units = unpack_u64(&u);
    p->read = unpack_u64(&u);
    p->number = unpack_u64(&u);
    p->need = unpack_u64(&u);
    p->failures = unpack_u64(&u);
    p->newest = (int64_t)unpack_u64(&u);
    p->tops = unpack_u64(&u);
    p->folders = unpack_u64(&u);
    text = unpack_text(&u, &n);
    pack_bytes(&p->notes, text, n);
    p->array = unpack_u32(&u) != 0;
    text = unpack_text(&u, &n);
    snprintf(p->dtype, sizeof p->dtype, "%.*s", (int)n, text);
    p->ndim = unpack_u32(&u);
    for (unsigned i = 0; i < p->ndim && i < 32; i++)
        p->shape[i] = unpack_u64(&u);
    p->nlabels = unpack_u64(&u);
    if (p->nlabels != UINT64_MAX && p->nlabels <= u.left / 8 &&
        (p->labels = malloc(p->nlabels * 8 + 1)))
        for (uint64_t i = 0; i < p->nlabels; i++)
            p->labels[i] = (int64_t)unpack_u64(&u);
    free(value);
    return u.bad || !version || p->ndim > 32
               ? dd_error(-EBADMSG, "the plan of the load in the dictionary is of another version; "
                                    "load it again with --replace")
               : 0;
}

void load_plan_free(struct load_plan *p) {
    for (uint64_t i = 0; p->unit && i < p->units; i++)
        pack_free(&p->unit[i]);
    free(p->unit);
    free(p->labels);
    pack_free(&p->notes);
    memset(p, 0, sizeof *p);
}

static int unit_read(struct unit *unit, const void *bytes, size_t len, uint64_t n) {
    struct unpack u = {.at = bytes, .left = len};
    unit->source = unpack_u32(&u);
    unit->facts.read = unpack_u64(&u);
    unit->facts.items = (int64_t)unpack_u64(&u);
    unit->facts.bytes = (int64_t)unpack_u64(&u);
    unit->work = u.at;
    unit->len = u.left;
    return !u.bad && unit->source < the_load.o->nsources
               ? 0
               : dd_error(-EBADMSG, "unit %llu of the load cannot be read", (unsigned long long)n);
}

int unit_fetch(struct unit *unit, uint64_t n) {
    size_t len;
    memset(unit, 0, sizeof *unit);
    if (the_load.plan)
        return unit_read(unit, the_load.plan->unit[n].data, the_load.plan->unit[n].len, n);
    int rc = state_get(the_load.id, "unit", (int64_t)n, -1, &unit->value, &len);
    if (rc < 0)
        return rc == DDICT_ENOKEY
                   ? dd_error(rc, "unit %llu of the load is not in the dictionary any more",
                              (unsigned long long)n)
                   : rc;
    if ((rc = unit_read(unit, unit->value, len, n)) < 0)
        free(unit->value);
    return rc;
}

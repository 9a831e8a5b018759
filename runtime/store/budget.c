/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.c - how much memory the arena has taken. A page counts from its first touch, or from the
 * moment in which it is about to be populated, until its memory is given back. The sum stays below
 * the arena's budget and below the machine's limits.
 */
#include "budget.h"

#include "pages.h"
#include <base/error.h>
#include <base/size.h>

static uint64_t index_bytes(const struct store *s) {
    const struct arena_header *h = s->header;
    uint64_t dir = (2ull << ROOT_DEPTH(h->root)) * sizeof(uint64_t);
    return round_up(dir, ARENA_PAGE) + (h->segments - s->index.holes) * DD_SEGMENT_SIZE;
}

uint64_t budget_fixed(struct store *s) {
    const struct arena_header *h = s->header;
    return ARENA_PAGE + round_up(h->heap_top * sizeof(uint64_t), ARENA_PAGE) + index_bytes(s) +
           budget_spill_map(s, h->spill_top);
}

uint64_t budget_spill_map(const struct store *s, uint64_t pages) {
    uint64_t first = s->heap.zone[ZONE_SPILL].first * sizeof(uint64_t);
    return pages ? round_up(first + pages * sizeof(uint64_t), ARENA_PAGE) -
                       (first & ~(uint64_t)(ARENA_PAGE - 1))
                 : 0;
}

uint64_t budget_spare(const struct store *s) {
    uint64_t part = s->header->budget / DD_SPILL_SPARE;
    if (s->spill.fd < 0)
        return 0;
    return part > DD_SPILL_SPARE_MIN ? part : DD_SPILL_SPARE_MIN;
}

uint64_t budget_resident(struct store *s) {
    if (huge_page(s->header))
        return s->header->budget; /* reserved from the start */
    uint64_t top = s->header->heap_top * ARENA_PAGE, claimed = figure_get(&s->populate.claimed);
    uint64_t mapped = figure_get(&s->populate.mapped);
    return budget_fixed(s) + (top > claimed ? top : claimed) +
           (mapped > top ? (mapped - top) / ARENA_PAGE * sizeof(uint64_t) : 0) -
           s->heap.holes * ARENA_PAGE;
}

void budget_publish(struct store *s) {
    figure_set(&s->populate.heap_top, s->header->heap_top * ARENA_PAGE);
    figure_set(&s->populate.index_bytes, budget_fixed(s));
}

static int error_full(struct store *s, uint64_t need) {
    char used[24], total[24];
    return dd_error(DDICT_EFULL, "manager %u is full: %s of %s in use, %llu more bytes are needed",
                    s->header->manager_id, size_format(used, sizeof used, s->header->used_bytes),
                    size_format(total, sizeof total, s->header->budget), (unsigned long long)need);
}

/* May so much memory be taken by the machine's limits? They are looked at once for each step. */
static int limits_grant(struct store *s, uint64_t fresh) {
    if (s->granted >= fresh)
        return 0;
    const char *limit;
    uint64_t room = memlimit_room(&limit);
    if (room < fresh) {
        char size[24];
        return dd_error_kind(DDICT_EFULL, STORE_FULL_MACHINE,
                             "manager %u cannot grow beyond %s: %s is near", s->header->manager_id,
                             size_format(size, sizeof size, budget_resident(s)), limit);
    }
    uint64_t step = fresh > DD_POPULATE_STEP ? fresh : DD_POPULATE_STEP;
    s->granted = room < step ? room : step;
    return 0;
}

int budget_take(struct store *s, uint64_t fresh, enum taker who, bool punch, struct stretch keep) {
    if (!fresh || huge_page(s->header))
        return 0;
    uint64_t taken = budget_resident(s), budget = s->header->budget;
    if (who != FOR_MOVES)
        budget -= who == FOR_VALUES ? budget_spare(s) : budget_spare(s) / 2;
    if (taken + fresh > budget) {
        uint64_t over = taken + fresh - budget;
        if (!punch)
            return error_full(s, fresh);
        uint64_t back = pages_punch(s, over, keep);
        s->granted += back;
        if (back < over)
            return error_full(s, fresh);
    }
    int rc = limits_grant(s, fresh);
    if (rc < 0)
        return rc;
    s->granted -= fresh;
    return 0;
}

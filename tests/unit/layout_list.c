/* SPDX-License-Identifier: Apache-2.0 */
/* layout_list.c - print the fields of what processes share in memory, for tests: on each line
 * struct, field, offset, bytes. A field that lacks here leaves a hole, which is an error. */
#include <store/layout.h>
#include <wire/lane.h>

#include <stddef.h>
#include <stdio.h>

static int bad;
static size_t end; /* of the field before */

static void field(const char *of, const char *name, size_t at, size_t bytes) {
    if (at < end || at - end >= 64 || (at != end && at % 64 != 0)) {
        fprintf(stderr, "what is before %s.%s?\n", of, name);
        bad = 1;
    }
    end = at + bytes;
    printf("%s %s %zu %zu\n", of, name, at, bytes);
}

static void whole(const char *of, size_t bytes) {
    if (end > bytes || bytes - end >= 64) {
        fprintf(stderr, "what is at the end of %s?\n", of);
        bad = 1;
    }
    end = 0;
}

#define F(s, f) field(#s, #f, offsetof(struct s, f), sizeof(((struct s *)0)->f))
#define END(s)  whole(#s, sizeof(struct s))

static void header(void) {
    F(arena_header, magic), F(arena_header, layout_version), F(arena_header, header_size);
    F(arena_header, file_size), F(arena_header, budget), F(arena_header, manager_id);
    F(arena_header, managers), F(arena_header, dict_id), F(arena_header, pagemap_off);
    F(arena_header, pagemap_len), F(arena_header, dir_off), F(arena_header, dir_len);
    F(arena_header, seg_off), F(arena_header, seg_len), F(arena_header, heap_off);
    F(arena_header, heap_len), F(arena_header, spill_len), F(arena_header, root);
    F(arena_header, freeze), F(arena_header, sleeping), F(arena_header, spun);
    F(arena_header, barriers), F(arena_header, page_shift), F(arena_header, heap_limit);
    F(arena_header, num_keys), F(arena_header, used_bytes), F(arena_header, version);
    F(arena_header, populated), F(arena_header, segments), F(arena_header, heap_top);
    F(arena_header, cached_items), F(arena_header, cached_bytes), F(arena_header, spill_top);
    F(arena_header, spill_ready), F(arena_header, spill_used), F(arena_header, spill_items);
    F(arena_header, spilled_bytes), F(arena_header, hidden), F(arena_header, intent);
    END(arena_header);
    F(intent, place), F(intent, new_word), F(intent, hidden_place), F(intent, hidden_word);
    F(intent, hidden_hash), F(intent, hidden_version), F(intent, open);
    END(intent);
}

static void items(void) {
    F(segment, moves), F(segment, sibling), F(segment, prefix), F(segment, depth);
    F(segment, live), F(segment, room), F(segment, bucket);
    END(segment);
    F(item, version), F(item, hash), F(item, val_len), F(item, key_len), F(item, tag);
    F(item, pad), F(item, check);
    END(item);
    F(queue_record, most), F(queue_record, drop), F(queue_record, head), F(queue_record, tail);
    END(queue_record);
}

static void clients(void) {
    F(lease_chunk, chunks), F(lease_chunk, idle), F(lease_chunk, slot);
    F(lease_chunk, counters), F(lease_chunk, hints), F(lease_chunk, hint), F(lease_chunk, room);
    END(lease_chunk);
    F(lane_page, magic), F(lane_page, version), F(lane_page, ring), F(lane_page, sq_tail);
    F(lane_page, cq_head), F(lane_page, client_sleeps), F(lane_page, sq_head);
    F(lane_page, cq_tail), F(lane_page, want_space), F(lane_page, doorbell);
    F(lane_page, unwatched), F(lane_page, taking), F(lane_page, area), F(lane_page, sq_used);
    END(lane_page);
}

int main(void) {
    header();
    items();
    clients();
    return bad;
}

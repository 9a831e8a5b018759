/* SPDX-License-Identifier: Apache-2.0 */
/* layout_list.c - print the fields of what processes share in memory or send each other, for tests:
 * on each line struct, field, offset, bytes; and for each struct its name and bytes. A field that
 * lacks here leaves a hole, which is an error. */
#include <base/stats.h>
#include <manager/supmsg.h>
#include <store/layout.h>
#include <supervisor/freeze.h>
#include <supervisor/save_passes.h>
#include <supervisor/supervisor.h>
#include <wire/attach.h>
#include <wire/auth.h>
#include <wire/event.h>
#include <wire/fabric/fabric_types.h>
#include <wire/lane.h>
#include <wire/link.h>
#include <wire/msg.h>
#include <wire/probe.h>

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
    if (end != 0 && (end > bytes || bytes - end >= 64)) {
        fprintf(stderr, "what is at the end of %s?\n", of);
        bad = 1;
    }
    end = 0;
    printf("%s %zu\n", of, bytes);
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
    F(arena_header, spilled_bytes), F(arena_header, hidden), F(arena_header, hidden_keys);
    F(arena_header, intent), F(arena_header, op);
    END(arena_header);
    F(intent, place), F(intent, new_word), F(intent, hidden_place), F(intent, hidden_word);
    F(intent, hidden_hash), F(intent, hidden_version), F(intent, open);
    END(intent);
    F(operation, kind), F(operation, room), F(operation, client), F(operation, at);
    F(operation, id), F(operation, place), F(operation, word), F(operation, item);
    F(operation, before);
    END(operation);
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

static void messages(void) {
    F(msg, len), F(msg, type), F(msg, flags), F(msg, id), F(msg, status), F(msg, key_len);
    F(msg, val_len), F(msg, aux), F(msg, version), F(msg, manager), F(msg, tag), F(msg, rule),
        F(msg, room);
    F(msg, patience_ms), F(msg, rewind);
    END(msg);
    F(event_record, version), F(event_record, val_len), F(event_record, key_len);
    F(event_record, got), F(event_record, kind), F(event_record, tag), F(event_record, room);
    END(event_record);
    F(probe, token), F(probe, address), F(probe, port), F(probe, room), F(probe, connections);
    F(probe, carrier);
    END(probe);
    whole("manager_stats", sizeof(struct manager_stats));
}

static void sockets(void) {
    F(attach_msg, magic), F(attach_msg, type), F(attach_msg, protocol), F(attach_msg, layout);
    F(attach_msg, status), F(attach_msg, managers), F(attach_msg, nodes), F(attach_msg, node_id);
    F(attach_msg, local_managers), F(attach_msg, manager), F(attach_msg, pid);
    F(attach_msg, keyed_nodes), F(attach_msg, refill), F(attach_msg, working_set),
        F(attach_msg, working_flags);
    F(attach_msg, client), F(attach_msg, total_bytes), F(attach_msg, spill_bytes);
    F(attach_msg, dict_id), F(attach_msg, node), F(attach_msg, step), F(attach_msg, text);
    END(attach_msg);
    F(status_page, magic), F(status_page, state), F(status_page, keeper), F(status_page, text);
    F(status_page, lease), F(status_page, persist);
    END(status_page);
    F(sup_msg, type), F(sup_msg, status), F(sup_msg, id), F(sup_msg, pid), F(sup_msg, room);
    F(sup_msg, count), F(sup_msg, used_bytes), F(sup_msg, total_bytes), F(sup_msg, text);
    F(sup_msg, stats);
    END(sup_msg);
}

static void connections(void) {
    F(auth_hello, magic), F(auth_hello, protocol), F(auth_hello, role), F(auth_hello, dict_id);
    F(auth_hello, from), F(auth_hello, to), F(auth_hello, group), F(auth_hello, wire);
    F(auth_hello, life), F(auth_hello, nonce);
    END(auth_hello);
    F(auth_challenge, magic), F(auth_challenge, protocol), F(auth_challenge, wire);
    F(auth_challenge, nonce), F(auth_challenge, mac);
    END(auth_challenge);
    F(auth_answer, mac);
    END(auth_answer);
    F(link_offer, channel), F(link_offer, address_len), F(link_offer, reads), F(link_offer, room);
    F(link_offer, provider), F(link_offer, address);
    END(link_offer);
    F(frame_head, channel), F(frame_head, bytes), F(frame_head, seq), F(frame_head, taken);
    F(frame_head, token);
    END(frame_head);
}

static void control(void) {
    F(freeze_word, what), F(freeze_word, manager), F(freeze_word, id), F(freeze_word, state);
    F(freeze_word, refused), F(freeze_word, goal), F(freeze_word, unused);
    END(freeze_word);
    F(note, kind), F(note, manager), F(note, count), F(note, used_bytes), F(note, total_bytes);
    F(note, node), F(note, text);
    END(note);
    F(save_word, what), F(save_word, node), F(save_word, pass), F(save_word, items);
    F(save_word, bytes), F(save_word, same), F(save_word, of), F(save_word, left_out);
    F(save_word, ok), F(save_word, pad), F(save_word, text);
    END(save_word);
}

int main(void) {
    header();
    items();
    clients();
    messages();
    sockets();
    connections();
    control();
    return bad;
}

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# LAYOUT 14 names each function that has an atomic access to the arena, the lease pages or the lanes, with its orders and with partners that have such accesses.
src=${srcdir-.} bad=0

# functions FILES - "FOLDER FUNCTION ORDER" of each atomic access; a signal fence is of the compiler
functions() {
    awk 'FNR == 1 { name = "?"; n = split(FILENAME, part, "/") }
        /^[A-Za-z_].*[a-z_0-9]\(/ && !/;[ \t]*(\/\*.*)?$/ {
            line = $0
            sub(/__attribute__\(\([^()]*(\([^()]*\))?\)\)/, "", line)
            match(line, /[a-z_0-9]+\(/)
            name = substr(line, RSTART, RLENGTH - 1)
        }
        {
            for (line = $0; match(line, /__atomic_[a-z_]+|__ATOMIC_[A-Z_]+/); line = substr(line, RSTART + RLENGTH)) {
                word = substr(line, RSTART, RLENGTH)
                if (word ~ /^__atomic/)
                    call = word
                else
                    print part[n - 1], name, call == "__atomic_signal_fence" ? "compiler" : tolower(substr(word, 10))
            }
        }' "$@" | sort -u
}
rows() { awk '/^## / { in_it = /^## 14/ } in_it && /^\| [a-z]+ \| [a-z_]+[, |]/' "$src/doc/LAYOUT.md" | grep -v '^| folder'; }
names() { cut -d' ' -f1,2 <<<"$1" | sort -u; }

# left out: other memory of the process's own, and the pages of the status (PROTOCOL 4) and of a manager's turns
own=$(awk '{ for (i = 2; i <= NF; i++) print $1, $i }' <<'END' | sort
wire status_page_keep status_page_keeper_dead
manager manager_serve
store level_fd
lib status_page_serves status_page_reads status_page_lease_lasts session_state_error ddict_ending
manager manager_may_serve manager_tell promotion_refuse may_populate probe_serve probe_take sup_ready sup_take
lib async_add_done async_enter async_op_deliver async_op_send async_op_unqueue async_spin async_take_done
lib client_lanes_turn unsent_add
lib client_lane_drain client_lane_lock client_lane_push client_lane_wait client_lane_yield
lib ddict_get_info ddict_keyed_nodes ddict_owner ddict_refills ddict_unsubscribe ddict_working_set fast_begin handle_revive session_enter
lib async_link_finish async_op_start ddict_checkpoint ddict_checkpoint_id ddict_rollback ddict_set_checkpoint_id ddict_sync_to_newest_checkpoint
lib left_add mark_at near_left_remove removal_end turn_begin turn_end value_store window_call_begin window_change_name window_check window_detach window_get_many window_list_open window_pass window_place_open window_put_many window_remove_later
lib ddict_reserve place_lives places_free request_pop
lib doorbell_take doorbells_sleep request_complete request_done sleeper_add sleeper_remove sleeper_wake
lib async_op_again push_anew push_rewind request_rewind request_rewound rewind_end
lib hold_await hold_give lease_is_scratch lease_refill list_purge owner_is owner_set
lib removals_hold removals_let_go
lib session_check session_empty session_forget session_open_by session_take sessions_reap
END
)
listed=$(rows | awk -F ' *[|] *' '{ n = split($3, name, ", "); for (i = 1; i <= n; i++) print $2, name[i] }' | sort)
told=$(rows | awk -F ' *[|] *' '{ n = split($3, name, ", "); m = split($4, word, /[^a-z_]+/)
    for (i = 1; i <= n; i++) for (k = 1; k <= m; k++)
        if (word[k] ~ /^(relaxed|acquire|release|acq_rel|seq_cst|compiler)$/) print $2, name[i], word[k] }' | sort -u)
all=$(functions "$src"/runtime/{store,wire,manager}/*.[ch] "$src"/client/lib/*.[ch])

[ "$(wc -l <<<"$listed")" -gt 50 ] || { echo "not ok only these functions in LAYOUT 14: $listed"; bad=1; }
uniq -d <<<"$listed" | grep . && { echo "not ok LAYOUT 14 has these functions twice"; bad=1; }
comm -23 <(echo "$listed") <(names "$told") | grep . && { echo "not ok LAYOUT 14 has these functions without an order"; bad=1; }
diff <(echo "$told") <(awk 'NR == FNR { own[$0]; next } !($1 " " $2 in own)' <(echo "$own") - <<<"$all") ||
    { echo "not ok LAYOUT 14 (<) and the source (>) have other functions with atomic accesses, or other orders"; bad=1; }
comm -23 <(echo "$own") <(names "$all") | grep . && { echo "not ok these functions are left out here, and have no atomic access"; bad=1; }
for name in $(rows | awk -F ' *[|] *' '{ print $5 }' | grep -oE '[a-z_]+\(\)' | tr -d '()' | sort -u); do
    grep -q " $name " <<<"$all" || { echo "not ok LAYOUT 14 names $name(), which has no atomic access"; bad=1; }
done
[ $bad = 0 ] && echo "ok LAYOUT 14 has all atomic accesses and their orders"
exit $bad

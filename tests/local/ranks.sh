#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ranks.sh - `ddict run -n`: every rank has its place, and when one ends badly nobody is left and its exit code is ours.
set -u
ddict=${DDICT:-$PWD/ddict}
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
failed=0
# is SENTENCE CODE OUTPUT ARGUMENTS... - exit code and sorted stdout of ddict run
is() {
    local name=$1 code=$2 want=$3 got rc
    shift 3
    timeout 60 "$ddict" run --local --record=none --mem=16M "$@" >"$out" 2>"$out.err" <<<"typed"
    rc=$?
    got=$(LC_ALL=C sort "$out" | paste -sd, -)
    if [ $rc = "$code" ] && [ "$got" = "$want" ]; then echo "ok $name"; else
        echo "not ok $name: exit code $rc, wanted $code; '$got', wanted '$want'"
        sed 's/^/# /' "$out.err"
        failed=1
    fi
    rm -f "$out.err"
}
# shellcheck disable=SC2016
{
    is "every_rank_has_its_place" 0 "0 0 3 3 0 127.0.0.1,1 1 3 3 0 127.0.0.1,2 2 3 3 0 127.0.0.1" \
        -n 3 -- sh -c 'echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR'
    is "one_port_for_all" 0 "1" -n 3 -- sh -c '"$0" put port$RANK $MASTER_PORT; [ $RANK != 0 ] || for r in 0 1 2; do "$0" get --wait=20 port$r; done | sort -u | grep -c .' "$ddict"
    is "rank_0_has_the_input" 0 "0 typed,1" -n 2 -- sh -c 'echo $RANK $(cat)'
    MASTER_PORT=77 is "the_user_s_port_stays" 0 "77,77" -n 2 -- sh -c 'echo $MASTER_PORT'
    is "without_n_nothing_is_set" 0 "none" -- sh -c 'echo ${RANK-none}'
    is "the_first_bad_end_ends_all" 7 "" -n 3 -- sh -c '[ $RANK != 1 ] || exit 7; exec sleep 50'
    is "a_signal_counts_as_128_and_it" 137 "" -n 2 -- sh -c '[ $RANK != 1 ] || kill -9 $$; exec sleep 50'
    is "who_ends_well_ends_nobody" 0 "later" -n 2 -- sh -c '[ $RANK = 0 ] || { sleep 0.3; echo later; }'
    is "a_command_that_is_not_there" 127 "" -n 2 -- ./nothing
}
exit $failed

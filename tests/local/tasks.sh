#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tasks.sh - `mpirun ddict run` on one machine, without Slurm: the ranks share a dictionary, which ends with the last of them.
set -u
ddict=${DDICT:-$PWD/ddict}
command -v mpirun >/dev/null || { echo "skipped: openmpi-bin is not installed"; exit 77; }
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT SLURM_JOB_ID
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader OMPI_MCA_plm=isolated
failed=0
try() { # WORDS OF mpirun...; what they say is in $out and $out.err
    timeout 60 mpirun --map-by :OVERSUBSCRIBE "$@" >"$out" 2>"$out.err" </dev/null
    rc=$?
}
is() { # SENTENCE GOT WANTED
    if [ "$2" = "$3" ]; then echo "ok $1"; else
        echo "not ok $1: '$2', wanted '$3'"
        sed 's/^/# /' "$out" "$out.err"
        failed=1
    fi
}
# The name of the dictionary that they had is free again.
is_gone() {
    local name i
    name=$(grep -oh '[0-9]*\.local\.m[0-9a-f]*' "$out" "$out.err" | head -n 1)
    for i in $(seq 100); do
        [ -n "$name" ] && ! grep -q "ddict/$name/" /proc/net/unix && break
        sleep 0.1
    done
    is "$1" "${name:+known}$(grep -c "ddict/${name:-no}/" /proc/net/unix)" known0
}
# shellcheck disable=SC2016
{
    try -n 4 "$ddict" run --managers=2 --mem=32M --record=none -- sh -c '"$0" put from$RANK v && for i in 0 1 2 3; do "$0" get --wait=20 from$i >/dev/null || exit 1; done
        echo "$RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $DDICT_NAME"' "$ddict"
    is "ranks_share_a_dictionary" "$rc$(awk '{ print $1, $2, $3 }' "$out" | sort | paste -sd,)" "00 0 4,1 1 4,2 2 4,3 3 4"
    is "of_one_name_and_one_place_to_meet" "$(awk '{ print $4, $5 }' "$out" | sort -u | grep -c '^127.0.0.1:[0-9]* [0-9]*\.local\.m')" 1
    is_gone "it_ends_with_them"

    try -n 3 "$ddict" run -v --mem=32M --record=none -- sh -c 'echo $DDICT_NAME; [ $RANK != 1 ] || exit 5; exec sleep 50' 
    is "a_rank_that_fails_ends_all" "$rc" 5
    is_gone "and_the_dictionary"

    try -n 3 "$ddict" run -v --mem=32M --record=none -- sh -c 'echo $DDICT_NAME; [ $RANK != 0 ] || sleep 0.5; [ $RANK = 0 ] || "$0" put k$RANK v' "$ddict"
    is "who_ends_early_ends_nobody" "$rc" 0
    is "the_summary_is_said_once" "$(grep -c '^ddict run: 1 manager on 1 node, 32.0 MiB: 2 keys' "$out.err")" 1

    try -n 3 "$ddict" run --mem=900T --record=none -- echo it ran
    is "what_cannot_be_is_said_once" "$(grep -c '^ddict run: --mem of 900.0 TiB: this machine has' "$out.err")$(grep -c 'it ran' "$out")" 10
    try -n 2 "$ddict" run -n 2 --mem=32M --record=none -- echo it ran
    is "ranks_within_ranks_are_refused_once" "$rc$(grep -c '^ddict run: -n 2 in one of 2 tasks' "$out.err")$(grep -c 'it ran' "$out")" 210
    try -n 2 "$ddict" run --local --mem=16M --record=none -- sh -c '"$0" put $OMPI_COMM_WORLD_RANK v; "$0" ls' "$ddict"
    is "or_each_rank_has_its_own" "$rc$(grep -c . "$out")" 02
}
rm -f "$out.err"
exit $failed
